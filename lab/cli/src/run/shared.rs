//! Checks whether several machines can generate the load of a run, and makes the message that
//! describes the run to them.
//!
//! Promises: work that cannot be shared is refused before the target is changed. Must not know: the
//! generators' reports.

use lab_kit::target::Target;
use lab_kit::workload::{Operation, Role, Step, Workload};

use super::arguments::RunArguments;
use super::context::Run;
use crate::counters::lock;
use crate::errors::LabError;
use crate::load::{Fleet, Job};

impl<T: Target> Run<'_, T> {
    /// Connects to the agents that generate load, if any were given.
    ///
    /// # Errors
    /// An agent cannot be used, or several machines cannot share the workload.
    pub(super) fn open_fleet(&self) -> Result<(), LabError> {
        let addresses = &self.arguments.load_agent;
        let Some(token) = self.arguments.agent_token_file.as_deref() else {
            return Ok(());
        };
        if addresses.is_empty() {
            return Ok(());
        }
        self.can_be_shared(addresses)?;
        let text = Workload::text(&self.arguments.workload)?;
        let token = crate::agent::token(token)?;
        let job = |number| self.job(&text, number);
        let fleet = Fleet::open(addresses, &token, job, self.arguments.call_timeout())?;
        *lock(&self.fleet) = Some(fleet);
        Ok(())
    }

    fn can_be_shared(&self, addresses: &[String]) -> Result<(), LabError> {
        let refused = |reason: String| Err(LabError::Agent(reason));
        let target = &self.arguments.target;
        let scheme = target.split(':').next().unwrap_or_default();
        if !["mongodb", "mongodb+srv", "mysql", "mariadb"].contains(&scheme) {
            let reason = format!("--load-agent needs a server: {scheme} runs in the lab's process");
            return refused(reason);
        }
        let elsewhere = addresses.iter().find(|address| !is_loopback(address));
        if let Some(address) = elsewhere.filter(|_| hosts(target).any(is_loopback)) {
            return refused(format!(
                "{address}: there the target's address means another machine; give an address \
                 that is valid on every machine"
            ));
        }
        for (at, address) in addresses.iter().enumerate() {
            if addresses.iter().take(at).any(|other| other == address) {
                return refused(format!(
                    "{address} is given twice; an agent generates one share of the load"
                ));
            }
        }
        let steps = self.workload.steps.iter().filter(|step| step.measured);
        let reason = steps
            .filter(|step| !step.work.operation.is_action())
            .find_map(|step| Some((step, unshared_reason(step, addresses.len())?)));
        match reason {
            Some((step, reason)) => refused(format!(
                "step {}: {reason} cannot be shared by {} generators; leave --load-agent out",
                step.name,
                addresses.len()
            )),
            None => Ok(()),
        }
    }

    fn job(&self, text: &str, generator: u32) -> Job {
        let RunArguments {
            target,
            db,
            databases,
            write_concern,
            journal,
            call_timeout_seconds,
            load_agent,
            ..
        } = self.arguments.clone();
        let mut settings = self.settings.clone();
        // Recorded arrivals are sent with each step.
        settings.arrivals = settings
            .arrivals
            .filter(|arrivals| !arrivals.starts_with("recorded:"));
        Job {
            workload: text.to_owned(),
            name: self.workload.name.clone(),
            settings,
            seed: self.seed,
            target,
            db,
            databases,
            write_concern,
            journal,
            call_timeout_seconds,
            generator,
            generators: u32::try_from(load_agent.len()).unwrap_or(1),
        }
    }
}

/// Why several machines cannot share the work of a step, if they cannot: its clients share state in
/// memory.
fn unshared_reason(step: &Step, generators: usize) -> Option<String> {
    if step.readers.is_some() {
        return Some("readers of changes".to_owned());
    }
    if step.recall.is_some() || !step.agree.is_empty() {
        return Some("questions after the work".to_owned());
    }
    if step.program {
        return Some("the user's program".to_owned());
    }
    if step.expiry.is_some() {
        return Some("documents that expire".to_owned());
    }
    let roles = step.background.iter().chain([&step.work]);
    let mut operations = roles.flat_map(operations);
    operations.find_map(|operation| {
        let name = match operation {
            Operation::FillRandom => "fill-random",
            Operation::Load => "load",
            Operation::DeleteOldest if generators > 1 => "delete-oldest",
            _ => return None,
        };
        Some(format!("the operation {name}"))
    })
}

/// The operations of a role's clients: those of its mix, then its own.
pub(super) fn operations(role: &Role) -> Vec<Operation> {
    let mixed = role.mix.iter().map(|(operation, _)| *operation);
    mixed.chain([role.operation]).collect()
}

/// The hosts of a target's address.
pub(super) fn hosts(target: &str) -> impl Iterator<Item = &str> {
    let rest = target.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = authority
        .rsplit_once('@')
        .map_or(authority, |(_, hosts)| hosts);
    hosts.split(',')
}

/// Whether HOST:PORT is a loopback address, which means a different machine on each machine.
fn is_loopback(address: &str) -> bool {
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => address,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let parsed = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || parsed.is_ok_and(|host| host.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_another_machine_elsewhere_are_known() {
        for (address, wanted) in [
            ("127.0.0.1:27017", true),
            ("127.1.2.3", true),
            ("[::1]:27017", true),
            ("LocalHost:1", true),
            ("10.0.0.5:27017", false),
            ("localhost.example:1", false),
        ] {
            assert_eq!(is_loopback(address), wanted, "{address}");
        }
        let all: Vec<&str> = hosts("mongodb://me:a@h:1,127.0.0.1:2/db?x=y").collect();
        assert_eq!(all, ["h:1", "127.0.0.1:2"]);
        assert_eq!(hosts("mysql://root@h/").collect::<Vec<_>>(), ["h"]);
    }
}
