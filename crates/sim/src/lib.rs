//! Runs PTX and SASS on a CPU.
