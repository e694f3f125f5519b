//! TiKV under the conformance suite, and tests of its own promises. Without a cluster every test
//! reports that and ends: `scripts/cluster.sh build` builds one that tests start by themselves, and
//! `QUARRY_TIKV_PD` names an existing one.

mod blocked;
mod contract;
mod doors;
mod large;
mod lease;
mod member;
mod outage;
mod reader;
mod tls;
mod tools;
mod versions;
mod writer;
