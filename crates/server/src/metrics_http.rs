//! The metrics port: listens, reads requests, checks who may see the metrics.
//!
//! Promises: off unless asked for; a slow or silent client delays no other client; the number of
//! clients is bounded; a web page whose host name was rebound to this machine's address gets
//! nothing, because that name is not one of this machine. Must not know: what the metrics are.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::config::Metrics;

/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Longest time for a client to send its request, and to receive each part of the reply.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most requests at a time; others get an error that asks them to come again.
const CLIENTS_MAX: usize = 16;
/// Stack of a thread that reads a request head and writes a page.
const STACK_BYTES: usize = 512 << 10;

/// A page and its content type.
pub(crate) struct Page {
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

/// Returns the page at a path, if there is one.
pub(crate) type Pages = dyn Fn(&str) -> Option<Page> + Send + Sync;

/// A thread that answers until dropped.
pub struct Endpoint {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    pages: Box<Pages>,
    token: Option<String>,
    /// Names of this machine.
    hosts: Vec<String>,
    clients: AtomicUsize,
}

impl Endpoint {
    /// Listens and answers.
    ///
    /// # Errors
    /// When the address cannot be bound or no thread be started.
    pub(crate) fn start(options: &Metrics, pages: Box<Pages>) -> std::io::Result<Endpoint> {
        let listener = TcpListener::bind((options.ip, options.port))?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stopping);
        let own = rustix::system::uname();
        let own = own.nodename().to_string_lossy().into_owned();
        let hosts = options.hosts.iter().cloned().chain([own]);
        let shared = Arc::new(Shared {
            pages,
            token: options.token.clone(),
            hosts: hosts.chain(["localhost".to_owned()]).collect(),
            clients: AtomicUsize::new(0),
        });
        let answer_all = move || {
            for client in listener.incoming() {
                if stops.load(Ordering::Acquire) {
                    return;
                }
                match client {
                    Ok(client) => answer_apart(&shared, client),
                    // Out of file descriptors: wait until the server closes some.
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
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
        // A connection to the port wakes the thread.
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(match own.ip() {
                IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let _ = TcpStream::connect_timeout(&own, PATIENCE);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers on a thread of its own. Errors are ignored: the client has disconnected.
fn answer_apart(shared: &Arc<Shared>, mut client: TcpStream) {
    let busy = shared.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX;
    let here = Arc::clone(shared);
    let thread = std::thread::Builder::new()
        .name("metrics".to_owned())
        .stack_size(STACK_BYTES);
    let started = !busy && {
        let client = client.try_clone();
        let run = move || {
            let _ = client.and_then(|client| here.answer(client));
            here.clients.fetch_sub(1, Ordering::Relaxed);
        };
        thread.spawn(run).is_ok()
    };
    if !started {
        shared.clients.fetch_sub(1, Ordering::Relaxed);
        let _ = client.set_nonblocking(true);
        let _ = client.write_all(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n");
    }
}

/// A reply: status, headers besides the usual ones, page.
type Reply = (&'static str, &'static str, Page);

fn text_page(text: &str) -> Page {
    Page {
        kind: "text/plain",
        body: format!("{text}\n"),
    }
}

impl Shared {
    fn answer(&self, mut client: TcpStream) -> std::io::Result<()> {
        client.set_write_timeout(Some(PATIENCE))?;
        let head = read_head(&mut client)?;
        let (status, header, page) = self.reply(&head);
        let head_of_reply = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{header}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             X-Frame-Options: DENY\r\n\
             Content-Security-Policy: default-src 'self' 'unsafe-inline'\r\n\
             Connection: close\r\n\r\n",
            page.kind,
            page.body.len()
        );
        client.write_all(head_of_reply.as_bytes())?;
        if !head.starts_with("HEAD ") {
            client.write_all(page.body.as_bytes())?;
        }
        client.shutdown(std::net::Shutdown::Write)
    }

    fn reply(&self, head: &str) -> Reply {
        if !header(head, "host").is_none_or(|host| self.is_own(host)) {
            let why = "this host name is not allowed: use the machine's address, or name it in \
                       --metricsHosts";
            return ("421 Misdirected Request", "", text_page(why));
        }
        if !self.is_authorized(header(head, "authorization")) {
            let ask = "WWW-Authenticate: Basic realm=\"quarry\"\r\n";
            let why = "the token of --metricsTokenFile is missing or wrong";
            return ("401 Unauthorized", ask, text_page(why));
        }
        let mut words = head.split([' ', '\r', '\n']);
        let (method, path) = (words.next(), words.next().unwrap_or(""));
        if !matches!(method, Some("GET" | "HEAD")) {
            return ("405 Method Not Allowed", "", text_page("only GET"));
        }
        let path = path.split('?').next().unwrap_or("");
        match (self.pages)(path) {
            Some(page) => ("200 OK", "", page),
            None => ("404 Not Found", "", text_page("no such page")),
        }
    }

    /// Whether a request is addressed to this machine. IP addresses are always accepted: only a
    /// name can be rebound to this machine by somebody else.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.split(':').next().unwrap_or(""),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        name.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|h| h.eq_ignore_ascii_case(name))
    }

    /// Whether the request's credentials hold the token.
    fn is_authorized(&self, authorization: Option<&str>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let Some((way, given)) = authorization.and_then(|a| a.split_once(' ')) else {
            return false;
        };
        let given = given.trim();
        match way.to_ascii_lowercase().as_str() {
            "bearer" => is_same(given.as_bytes(), token.as_bytes()),
            "basic" => STANDARD.decode(given).is_ok_and(|pair| {
                let mut parts = pair.splitn(2, |byte| *byte == b':');
                let password = parts.nth(1).unwrap_or_default();
                is_same(password, token.as_bytes())
            }),
            _ => false,
        }
    }
}

/// Compares in a time that does not depend on where the first difference is.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differ = given.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && differ == 0
}

/// The value of a header; `name` is in lower case.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// The head of a request, as far as it arrives in time.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn new_shared(token: Option<&str>) -> Shared {
        Shared {
            pages: Box::new(|path| (path == "/metrics").then(|| text_page("up 1"))),
            token: token.map(str::to_owned),
            hosts: vec!["db.example.com".to_owned(), "localhost".to_owned()],
            clients: AtomicUsize::new(0),
        }
    }

    fn status(shared: &Shared, headers: &str) -> &'static str {
        let head = format!("GET /metrics HTTP/1.1\r\n{headers}\r\n");
        shared.reply(&head).0.split(' ').next().unwrap()
    }

    #[test]
    fn names_that_are_not_this_machines_get_nothing() {
        let open = new_shared(None);
        for host in [
            "localhost",
            "LOCALHOST:9100",
            "127.0.0.1:9100",
            "[::1]:9100",
            "10.1.2.3",
            "db.example.com.",
        ] {
            assert_eq!(status(&open, &format!("Host: {host}\r\n")), "200", "{host}");
        }
        assert_eq!(status(&open, ""), "200");
        for host in [
            "evil.example",
            "localhost.evil.example:9100",
            "[x]",
            "",
            "127.0.0.1.evil",
        ] {
            assert_eq!(status(&open, &format!("host:{host}\r\n")), "421", "{host}");
        }
    }

    #[test]
    fn a_token_is_a_bearers_or_the_password_of_any_user() {
        let closed = new_shared(Some("0123456789abcdef"));
        let basic = |pair: &str| format!("Authorization: Basic {}\r\n", STANDARD.encode(pair));
        for (headers, expected) in [
            (String::new(), "401"),
            (
                "Authorization: Bearer 0123456789abcdef\r\n".to_owned(),
                "200",
            ),
            (
                "authorization: bearer 0123456789abcdef \r\n".to_owned(),
                "200",
            ),
            (
                "Authorization: Bearer 0123456789abcdeg\r\n".to_owned(),
                "401",
            ),
            (
                "Authorization: Bearer 0123456789abcde\r\n".to_owned(),
                "401",
            ),
            ("Authorization: Bearer\r\n".to_owned(), "401"),
            (basic("me:0123456789abcdef"), "200"),
            (basic("0123456789abcdef"), "401"),
            (basic("0123456789abcdef:"), "401"),
            ("Authorization: Basic %%\r\n".to_owned(), "401"),
        ] {
            assert_eq!(status(&closed, &headers), expected, "{headers}");
        }
    }
}
