//! Limits, stopping, memory of idle connections, buffers.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wire::MessageBuilder;

use crate::client::{Client, document};
use crate::toy::{ToyServer, eventually, run_alone};

#[test]
fn connections_beyond_the_limit_are_closed() {
    let running = ToyServer::start_with(|config| config.max_connections = 3);
    let mut kept: Vec<Client> = (0..3).map(|_| Client::tcp(&running)).collect();
    for client in &mut kept {
        assert!(client.run("ping", 1).is_ok());
    }
    let mut refused = Client::tcp(&running);
    assert!(refused.try_receive().is_none());
    assert_eq!(running.server().stats().rejected_connections, 1);
    drop(kept.pop());
    eventually("place freed", || {
        running.server().stats().current_connections == 2
    });
    assert!(Client::tcp(&running).run("ping", 1).is_ok());
}

#[test]
fn stop_completes_running_requests_and_closes_idle_connections() {
    let mut running = ToyServer::start();
    let mut idle = Client::tcp(&running);
    assert!(idle.run("ping", 1).is_ok());
    let mut waiting = Client::tcp(&running);
    waiting.send("wait", 60_000, 0);
    let mut slow = Client::tcp(&running);
    slow.send("slow", 200, 0);
    eventually("all running", || running.server().stats().requests == 3);
    let path = running.server().unix_path().unwrap().to_path_buf();
    let address = running.server().tcp_addresses()[0];
    let server = running.server.take().unwrap();
    let start = Instant::now();
    assert!(server.stop(Duration::from_secs(5)));
    assert!(start.elapsed() < Duration::from_secs(3));
    assert_eq!(slow.receive().int("slept"), 200);
    assert!(slow.try_receive().is_none());
    assert!(idle.try_receive().is_none());
    assert!(waiting.try_receive().is_none());
    assert!(!path.exists(), "socket file is taken away");
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn stop_does_not_wait_longer_than_its_grace() {
    let mut running = ToyServer::start();
    let mut held = Client::tcp(&running);
    held.send("durable", 1, 0);
    eventually("request seen", || running.server().stats().requests == 1);
    let start = Instant::now();
    assert!(
        !running
            .server
            .take()
            .unwrap()
            .stop(Duration::from_millis(50))
    );
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(held.try_receive().is_none());
}

#[test]
fn socket_file_of_a_dead_server_is_replaced() {
    let running = ToyServer::start();
    let path = running.server().unix_path().unwrap().to_path_buf();
    let port = running.server().tcp_addresses()[0].port();
    drop(running.server);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let folder = running.folder;
    let again = ToyServer::start_with(|config| {
        config.port = port;
        config.unix_socket_prefix = Some(folder.path().to_path_buf());
    });
    assert!(Client::unix(&again).run("ping", 1).is_ok());
}

#[test]
fn every_connect_has_its_disconnect() {
    let running = ToyServer::start();
    for round in 0..300 {
        let mut client = if round % 2 == 0 {
            Client::tcp(&running)
        } else {
            Client::unix(&running)
        };
        if round % 3 == 0 {
            assert!(client.run("ping", 1).is_ok());
        }
    }
    eventually("all gone", || {
        running.toy().disconnected.load(Ordering::SeqCst) == 300
    });
    assert_eq!(running.toy().connected.load(Ordering::SeqCst), 300);
    assert_eq!(running.server().stats().current_connections, 0);
}

fn rss_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Both ends are in this process, so the measurement is an upper bound for the server's share.
#[test]
fn idle_connections_keep_no_buffers() {
    if !run_alone("lifecycle::idle_connections_keep_no_buffers") {
        return;
    }
    const CONNECTIONS: usize = 1000;
    let running = ToyServer::start();
    let mut warm = Client::tcp(&running);
    warm.run("big", 1_000_000);
    let before = rss_kib();
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::tcp(&running)).collect();
    for client in &mut clients {
        assert_eq!(client.run("big", 200_000).body.len(), 200_015);
    }
    let each = rss_kib().saturating_sub(before) * 1024 / CONNECTIONS;
    // One reply kept per connection would be 200 KB, one receive buffer 64 KB.
    eprintln!("{each} bytes per connection");
    assert!(each < 4_000, "{each} bytes per connection");
}

/// A short request after another connection's long one must not read bytes that are left in the
/// thread's buffer.
#[test]
fn no_bytes_of_another_connection_leak() {
    let running = ToyServer::start_with(|config| config.drivers = 1);
    let mut rich = Client::tcp(&running);
    let mut poor = Client::tcp(&running);
    let secret = "s3cret".repeat(5000);
    let mut doc = model::DocBuf::new();
    doc.put("echo", model::Value::String(&secret));
    for _ in 0..50 {
        rich.stream
            .write_all(&MessageBuilder::new(1).body(doc.as_bytes()).build())
            .unwrap();
        assert_eq!(rich.receive().body, doc.as_bytes());
        // A frame in two halves: the first ends where the secret is still in the receive buffer.
        let message = MessageBuilder::new(2).body(&document("echo", 1)).build();
        let (head, tail) = message.split_at(30);
        poor.stream.write_all(head).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        poor.stream.write_all(tail).unwrap();
        assert_eq!(poor.receive().body, document("echo", 1));
    }
}
