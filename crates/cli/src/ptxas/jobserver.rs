//! `--jobserver`: a GNU make that runs this tool says how many threads there may be in all.
//!
//! `MAKEFLAGS` names a pipe with a byte for each thread that may run beside the first of every program. Whoever takes one puts it
//! back.

use codegen::parallel::Permits;
use std::any::Any;
use std::sync::Arc;

/// What `MAKEFLAGS` leads to.
pub enum Found {
    /// A make that gives leave.
    Client(Arc<dyn Permits>),
    /// No make, or one that counts nothing.
    Nothing,
    /// The pipe that it names is none, or closed.
    Damaged,
}

#[derive(Debug)]
struct Make(jobserver::Client);

impl Permits for Make {
    fn take(&self) -> Option<Box<dyn Any + Send>> {
        // A pipe that fails gives no leave: the work is done all the same.
        self.0.try_acquire().ok().flatten().map(|token| Box::new(token) as Box<dyn Any + Send>)
    }
}

/// Looks for the make that runs this program.
pub fn connect() -> Found {
    // Nothing else of this program uses the descriptors that make hands on, and they are looked at before they are used.
    #[allow(unsafe_code)]
    let found = unsafe { jobserver::Client::from_env_ext(true) };
    match found.client {
        Ok(client) => Found::Client(Arc::new(Make(client))),
        Err(e) => match e.kind() {
            jobserver::FromEnvErrorKind::NoEnvVar | jobserver::FromEnvErrorKind::NoJobserver => Found::Nothing,
            _ => Found::Damaged,
        },
    }
}
