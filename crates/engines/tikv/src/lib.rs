//! The storage contract on a TiKV cluster: the data is on many machines, only one server uses it at
//! a time, and another one may take over at once when that server is gone.
//!
//! Promises: the contract of `docs/storage-contract.md`; a commit that returned is on a majority of
//! the replicas; two servers never write to one database at the same time. Must not know:
//! documents, BSON, other engines. The only crate with an async runtime, which is not visible
//! outside. The design is explained in `docs/adr/0048-tikv.md`.
//!
//! # Traps
//! - **Time is the oracle's.** The lease, positions and snapshots are timestamps of PD. Whether
//!   reads are still allowed is judged by this machine's monotonic clock.
//! - **A transaction's cost grows with the square of its size**: the client copies all keys into
//!   each request of 16 KiB. Large batches go another way ([`commits`]).
//! - **A scan asks every region of its range with the full limit** and without a limit of bytes, so
//!   rows in the tables are short; what is longer lies in pieces elsewhere ([`layout`]).
//! - **The client does without TLS unless all three files are given**, and also when the one of the
//!   authorities is empty: the files are checked before it gets them ([`TlsFiles`]).
//! - **A lost answer is not a failed commit**: the fence row says what became of it ([`lease`]).

mod announcements;
mod cluster;
mod commits;
mod config;
mod engine;
mod error;
mod hooks;
mod lane;
mod layout;
mod lease;
mod lease_row;
mod member;
mod membership;
mod moments;
mod oracle_clock;
mod overlay;
mod process;
mod ranges;
mod reader;
mod requests;
mod row_numbers;
mod slots;
mod tls;
mod turn;
mod turn_renewal;
mod turn_row;
mod unit;
mod versions;
mod view;
mod written;

pub use config::{Config, DISK_FORMAT, MEMBER_FORMAT};
pub use engine::TikvEngine;
pub use layout::is_prefix;
pub use member::TikvMember;
pub use reader::TikvReader;
pub use tls::TlsFiles;
