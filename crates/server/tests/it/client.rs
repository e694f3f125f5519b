//! A blocking client that implements only the part of the protocol that the tests need.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use model::{Doc, DocBuf, Value};
use wire::{CompressorSet, DecodeOptions, Header, MessageBuilder, decode};

use crate::toy::ToyServer;

pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub(crate) struct Client {
    pub(crate) stream: Box<dyn Stream>,
    next_id: i32,
}

/// The parts of a reply that tests use.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) header: Header,
    /// As received, before any decompression.
    pub(crate) op_code: i32,
    pub(crate) body: Vec<u8>,
    pub(crate) more_to_come: bool,
    pub(crate) checksum: bool,
}

impl Answer {
    pub(crate) fn int(&self, name: &str) -> i32 {
        match Doc::new(&self.body).unwrap().get(name) {
            Some(Value::Int32(n)) => n,
            other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn is_ok(&self) -> bool {
        matches!(
            Doc::new(&self.body).unwrap().get("ok"),
            Some(Value::Double(1.0))
        )
    }
}

pub(crate) fn document(name: &str, value: i32) -> Vec<u8> {
    let mut doc = DocBuf::new();
    doc.put(name, Value::Int32(value));
    doc.put("$db", Value::String("test"));
    doc.as_bytes().to_vec()
}

impl Client {
    pub(crate) fn tcp(running: &ToyServer) -> Self {
        let stream = TcpStream::connect(running.server().tcp_addresses()[0]).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        Self {
            stream: Box::new(stream),
            next_id: 100,
        }
    }

    /// A client over any stream.
    pub(crate) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            next_id: 100,
        }
    }

    /// Sends a whole command and returns its answer.
    pub(crate) fn call(&mut self, body: &[u8]) -> Answer {
        self.next_id += 1;
        let message = MessageBuilder::new(self.next_id)
            .flags(0)
            .body(body)
            .build();
        self.stream.write_all(&message).unwrap();
        self.receive()
    }

    pub(crate) fn unix(running: &ToyServer) -> Self {
        let stream = UnixStream::connect(running.server().unix_path().unwrap()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        Self {
            stream: Box::new(stream),
            next_id: 100,
        }
    }

    pub(crate) fn send(&mut self, name: &str, value: i32, flags: u32) -> i32 {
        self.next_id += 1;
        let message = MessageBuilder::new(self.next_id)
            .flags(flags)
            .body(&document(name, value))
            .build();
        self.stream.write_all(&message).unwrap();
        self.next_id
    }

    pub(crate) fn run(&mut self, name: &str, value: i32) -> Answer {
        let id = self.send(name, value, 0);
        let answer = self.receive();
        assert_eq!(answer.header.response_to, id);
        answer
    }

    pub(crate) fn receive(&mut self) -> Answer {
        self.try_receive().expect("a reply")
    }

    /// `None` when the server has closed the connection.
    pub(crate) fn try_receive(&mut self) -> Option<Answer> {
        let mut head = [0; 16];
        match self.stream.read_exact(&mut head) {
            Ok(()) => {}
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                return None;
            }
            Err(e) => panic!("{e}"),
        }
        let (header, _) = Header::split(&head).unwrap();
        let mut frame = head.to_vec();
        frame.resize(header.message_len as usize, 0);
        self.stream.read_exact(&mut frame[16..]).unwrap();
        if header.op_code == 1 {
            let body = frame[36..].to_vec();
            return Some(Answer {
                header,
                op_code: 1,
                body,
                more_to_come: false,
                checksum: false,
            });
        }
        let options = DecodeOptions {
            compressors: CompressorSet::default(),
        };
        let mut scratch = Vec::new();
        let message = decode(&frame, &options, &mut scratch).expect("a valid reply");
        Some(Answer {
            header: message.header,
            op_code: header.op_code,
            body: message.body.to_vec(),
            more_to_come: message.reply.suppressed,
            checksum: message.reply.checksum,
        })
    }
}
