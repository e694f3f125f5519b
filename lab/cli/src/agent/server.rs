//! The agent's side: a few connections, each with a thread and one process to sample.

use std::io::{ErrorKind, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metrics::{ProcessSampler, listening_process};

use super::{AgentArguments, token};
use crate::errors::LabError;
use crate::load::{LoadService, MakeLoad};
use crate::wire::{self, GREETING, LOAD, PROCESS, ProcessQuery, REFUSED, SAMPLE};

/// The largest number of connections; further ones are closed.
const CONNECTIONS_MAX: usize = 16;
/// The time limit for a client to prove that it knows the token.
const PROVE_MAX: Duration = Duration::from_secs(5);
/// The longest time between two requests: a step without samples may be long.
const IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Listens until the program ends; with `make_load` it also generates load.
pub(crate) fn run(
    arguments: &AgentArguments,
    make_load: MakeLoad,
) -> std::result::Result<(), LabError> {
    let token: Arc<[u8]> = token(&arguments.token_file)?.into();
    let failed = |error| LabError::Agent(format!("{}: {error}", arguments.listen));
    let listener = TcpListener::bind(&arguments.listen).map_err(failed)?;
    print_line!("agent at {}", listener.local_addr().map_err(failed)?);
    let load = LoadService::new(arguments.load.then_some(make_load));
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        let before = open.fetch_add(1, Ordering::AcqRel);
        let counted = ConnectionGuard(open.clone());
        if before >= CONNECTIONS_MAX {
            continue;
        }
        let (token, load) = (token.clone(), load.clone());
        std::thread::spawn(move || {
            let _counted = counted;
            if let Err(error) = serve(&stream, &token, &load) {
                note_line!("agent: {error}");
            }
        });
    }
    Ok(())
}

/// Counts an open connection until it is dropped.
struct ConnectionGuard(Arc<AtomicUsize>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn read(mut stream: &TcpStream, within: Duration) -> Result<Option<String>> {
    let deadline = Instant::now() + within;
    wire::read_line(&mut stream, |stream| {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))
    })
}

fn serve(mut stream: &TcpStream, token: &[u8], load: &LoadService) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PROVE_MAX))?;
    let number = format!("{:032x}", rand::random::<u128>());
    stream.write_all(format!("{GREETING}{number}\n").as_bytes())?;
    let Some(line) = read(stream, PROVE_MAX)? else {
        return Ok(());
    };
    let asked = line.split_once(' ');
    let asked = asked.filter(|(proof, wanted)| wire::is_proven(token, &number, wanted, proof));
    if let Some(asked) = asked.and_then(|(_, wanted)| wanted.strip_prefix(LOAD)) {
        return load.serve(stream, token, &number, asked);
    }
    let mut sampler = match asked.map_or(Err("the token is wrong"), |(_, wanted)| find(wanted)) {
        Ok(sampler) => sampler,
        Err(reason) => return stream.write_all(format!("{REFUSED}{reason}\n").as_bytes()),
    };
    stream.write_all(format!("{PROCESS}{}\n", sampler.pid()).as_bytes())?;
    while let Some(line) = read(stream, IDLE_MAX)? {
        if line != SAMPLE {
            return stream.write_all(format!("{REFUSED}no such request\n").as_bytes());
        }
        let answer = match sampler.sample() {
            Ok(sample) => wire::of_sample(&sample),
            Err(_) => format!("{REFUSED}the process has ended"),
        };
        stream.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

fn find(wanted: &str) -> std::result::Result<ProcessSampler, &'static str> {
    let pid = match ProcessQuery::parse(wanted).ok_or("no such request")? {
        ProcessQuery::Port(port) => {
            listening_process(port).ok_or("no process that the agent can see listens there")?
        }
        ProcessQuery::Process(pid) => pid,
    };
    let sampler = ProcessSampler::new(pid).map_err(|_| "there is no such process")?;
    if !sampler.sees_storage() {
        return Err(
            "the agent may not read the process's storage counters: run it as the same user or \
             root",
        );
    }
    Ok(sampler)
}
