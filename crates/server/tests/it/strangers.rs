//! Clients that are refused, and clients that have not logged in: what they may hold, and for how
//! long.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::Doc;
use wire::MessageBuilder;

use crate::client::{Client, document};
use crate::toy::{ToyServer, eventually};

const PATIENCE: Duration = Duration::from_millis(300);
const TOO_MANY: i32 = 462;

#[test]
fn clients_beyond_the_limit_are_answered_and_closed() {
    let running = ToyServer::start_with(|config| config.max_connections = 2);
    let mut inside: Vec<Client> = (0..2).map(|_| Client::tcp(&running)).collect();
    for client in &mut inside {
        assert!(client.run("ping", 1).is_ok());
    }
    for _ in 0..3 {
        let mut outside = Client::tcp(&running);
        let answer = outside.run("hello", 1);
        assert!(!answer.is_ok());
        assert_eq!(answer.int("code"), TOO_MANY);
        let labels = Doc::new(&answer.body).unwrap().field("errorLabels");
        assert!(
            labels
                .as_array()
                .is_some_and(|labels| labels.iter().count() == 2)
        );
        assert!(outside.try_receive().is_none(), "it is not closed");
    }
    // A silent client is closed, too, and other clients are accepted once there is room.
    let mut silent = Client::tcp(&running);
    assert!(silent.try_receive().is_none());
    drop(inside);
    eventually("there is room again", || {
        let mut client = Client::tcp(&running);
        client.run("ping", 1).is_ok()
    });
    assert!(running.server().stats().rejected_connections >= 4);
}

#[test]
fn clients_that_wait_for_that_answer_are_few() {
    let running = ToyServer::start_with(|config| {
        config.max_connections = 0;
        config.turned_away_max = 2;
    });
    let began = Instant::now();
    let _silent: Vec<Client> = (0..2).map(|_| Client::tcp(&running)).collect();
    eventually("both are held", || {
        running.server().stats().rejected_connections == 2
    });
    let mut closed = Client::tcp(&running);
    assert!(closed.try_receive().is_none());
    assert!(began.elapsed() < Duration::from_millis(900), "it was held");
    eventually("places are free again", || {
        let mut client = Client::tcp(&running);
        client.send("hello", 1, 0);
        client.try_receive().is_some()
    });
}

/// Sends `bytes`; returns how long the server keeps the connection, `None` if it is kept.
fn measure_connection(running: &ToyServer, bytes: &[u8]) -> Option<Duration> {
    // The server's time begins when it accepts, which may be before `connect` returns.
    let began = Instant::now();
    let mut stream = TcpStream::connect(running.server().tcp_addresses()[0]).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut bytes = bytes.iter();
    while began.elapsed() < 4 * PATIENCE {
        // Sending one byte at a time does not extend the time.
        if let Some(byte) = bytes.next()
            && stream.write_all(&[*byte]).is_err()
        {
            return Some(began.elapsed());
        }
        match std::io::Read::read(&mut stream, &mut [0; 16]) {
            Ok(0) => return Some(began.elapsed()),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => {
                return Some(began.elapsed());
            }
            _ => {}
        }
    }
    None
}

#[test]
fn who_has_to_log_in_ends_what_it_begins() {
    let running = ToyServer::start_with(|config| config.patience = PATIENCE);
    let message = MessageBuilder::new(1).body(&document("ping", 1)).build();
    let half = &message[..message.len() - 1];
    assert_eq!(measure_connection(&running, half), None);
    assert_eq!(measure_connection(&running, &[]), None);
    running.toy().is_closed.store(true, Ordering::SeqCst);
    for bytes in [half, &message[..3], &[]] {
        let time = measure_connection(&running, bytes).expect("it is kept");
        assert!(time >= PATIENCE && time < 3 * PATIENCE, "{time:?}");
    }
    // Between messages a client may be slow.
    let mut patient = Client::tcp(&running);
    for _ in 0..2 {
        assert!(patient.run("ping", 1).is_ok());
        std::thread::sleep(2 * PATIENCE);
    }
    assert!(patient.run("ping", 1).is_ok());
    eventually("all others are gone", || {
        running.server().stats().current_connections == 1
    });
}
