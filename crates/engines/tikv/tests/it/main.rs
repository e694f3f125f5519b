//! TiKV under the conformance suite, and what only it promises. Without a cluster every test says
//! so and ends: `scripts/cluster.sh build` makes one that tests start by themselves, and
//! `QUARRY_TIKV_PD` names one that is there.

mod contract;
mod large;
mod lease;
mod outage;
mod reader;
mod tools;
mod versions;
mod writer;
