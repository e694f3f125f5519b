//! Metrics over plain HTTP on a port of their own: `/metrics` for Prometheus, `/` for people.
//!
//! Promises: off unless asked for; a client that says or takes nothing holds up nobody but others
//! that ask for metrics, and them for seconds; nothing is changed by any request.
//! Must not know: what the metrics are.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use commands::Dispatcher;
use commands::metrics_export;

const PAGE: &str = include_str!("metrics_page.html");
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// How long a client may take for its request, and for each part of the reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread that answers until dropped.
pub struct Endpoint {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Endpoint {
    /// Listens and answers.
    ///
    /// # Errors
    /// When the address cannot be bound or no thread be started.
    pub fn start(ip: IpAddr, port: u16, server: Arc<Dispatcher>) -> std::io::Result<Endpoint> {
        let listener = TcpListener::bind((ip, port))?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stopping);
        let answer_all = move || {
            for client in listener.incoming() {
                if stops.load(Ordering::Acquire) {
                    return;
                }
                // A client that goes away is no trouble of ours.
                let _ = client.and_then(|client| answer(client, &server));
            }
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(answer_all)?;
        Ok(Endpoint {
            address,
            stopping,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut client: TcpStream, server: &Dispatcher) -> std::io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut client)?;
    let mut words = head.split([' ', '\r', '\n']);
    let (method, path) = (words.next(), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or("");
    let (status, kind, body) = match (method, path) {
        (Some("GET" | "HEAD"), "/metrics") => (
            "200 OK",
            "text/plain; version=0.0.4",
            metrics_export::prometheus(server),
        ),
        (Some("GET" | "HEAD"), "/metrics.json") => {
            let mut json = String::new();
            logs::append_document(&mut json, metrics_export::page(server).doc());
            ("200 OK", "application/json", json)
        }
        (Some("GET" | "HEAD"), "/") => ("200 OK", "text/html; charset=utf-8", PAGE.to_owned()),
        (Some("GET" | "HEAD"), _) => ("404 Not Found", "text/plain", "no such page\n".to_owned()),
        _ => (
            "405 Method Not Allowed",
            "text/plain",
            "only GET\n".to_owned(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Security-Policy: default-src 'self' 'unsafe-inline'\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    if method != Some("HEAD") {
        client.write_all(body.as_bytes())?;
    }
    client.shutdown(std::net::Shutdown::Write)
}

/// The head of a request, as far as it comes in time.
fn read_head(client: &mut TcpStream) -> std::io::Result<String> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while head.len() < HEAD_BYTES_MAX && !head.windows(4).any(|w| w == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut part)? {
            0 => break,
            n => head.extend_from_slice(part.get(..n).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
