//! Asynchronous copies of one thread (PTX) or one warp (SASS) that are under way: the bytes of shared memory that they
//! write, in groups.

use crate::fault::MemFault;
use crate::shadow::{Shadow, Who};
use std::collections::VecDeque;

/// Bytes of shared memory that a copy writes: CTA rank, offset, size, who asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// CTA rank and offset in its memory.
    pub place: (usize, usize),
    /// Bytes.
    pub size: u32,
    /// Who asked.
    pub who: Who,
}

/// Copies under way.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    open: Vec<Piece>,
    groups: VecDeque<Vec<Piece>>,
}

impl Copies {
    /// A copy starts: see [`Shadow::start`].
    ///
    /// # Errors
    /// A race with an earlier access.
    pub fn start(&mut self, shadow: &mut Shadow, piece: Piece) -> Result<(), MemFault> {
        shadow.start(piece.place, piece.size, piece.who)?;
        self.open.push(piece);
        Ok(())
    }

    /// `commit_group`: copies since the last one are a group.
    pub fn commit(&mut self) {
        let group = std::mem::take(&mut self.open);
        self.groups.push_back(group);
    }

    /// Takes all copies out: something else tells when they are done.
    pub fn take(&mut self) -> Vec<Piece> {
        self.groups.drain(..).flatten().chain(self.open.drain(..)).collect()
    }

    /// `wait_group n`: all groups but the last `n` are done.
    ///
    /// # Errors
    /// A race of what landed with an access in between.
    pub fn wait(&mut self, shadow: &mut Shadow, n: usize) -> Result<(), MemFault> {
        while self.groups.len() > n {
            for piece in self.groups.pop_front().unwrap_or_default() {
                land(shadow, piece)?;
            }
        }
        Ok(())
    }

    /// `wait_all`: every copy is done.
    ///
    /// # Errors
    /// As [`Copies::wait`].
    pub fn wait_all(&mut self, shadow: &mut Shadow) -> Result<(), MemFault> {
        self.wait(shadow, 0)?;
        self.open.drain(..).try_for_each(|piece| land(shadow, piece))
    }
}

/// The bytes count as written now.
pub fn land(shadow: &mut Shadow, piece: Piece) -> Result<(), MemFault> {
    shadow.landed(piece.place, piece.size, piece.who)
}
