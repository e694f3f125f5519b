//! Messages of the fake server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use mongodb::bson::{Bson, Document};

use super::{Faults, State, answer, data};

pub(super) fn serve(mut stream: TcpStream, state: &Mutex<State>, faults: Faults) {
    while let Some((id, code, body)) = read_message(&mut stream) {
        let Some(command) = parse(code, &body) else {
            return;
        };
        let Some(reply) = answer(&command, &mut state.lock().unwrap(), faults) else {
            return;
        };
        if let Some(time) = faults.hello_takes
            && reply.contains_key("isWritablePrimary")
        {
            std::thread::sleep(time);
        }
        if data::is_empty_batch(&reply) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let bytes = reply.to_vec().unwrap();
        let mut out = Vec::new();
        let head: &[u8] = if code == 2_013 {
            &[0, 0, 0, 0, 0]
        } else {
            &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
        };
        let length = 16 + head.len() + bytes.len();
        for number in [length as i32, 0, id, if code == 2_013 { 2_013 } else { 1 }] {
            out.extend(number.to_le_bytes());
        }
        out.extend(head);
        out.extend(bytes);
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn read_message(stream: &mut TcpStream) -> Option<(i32, i32, Vec<u8>)> {
    let mut head = [0_u8; 16];
    stream.read_exact(&mut head).ok()?;
    let number = |at: usize| i32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    let mut body = vec![0; number(0) as usize - 16];
    stream.read_exact(&mut body).ok()?;
    Some((number(4), number(12), body))
}

/// A command with its document sequences as arrays.
pub(crate) fn parse(code: i32, body: &[u8]) -> Option<Document> {
    let document_at = |at: usize| {
        let length = i32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?) as usize;
        Some((
            Document::from_reader(body.get(at..at + length)?).ok()?,
            at + length,
        ))
    };
    if code == 2_004 {
        let name_end = 4 + body.get(4..)?.iter().position(|byte| *byte == 0)?;
        return Some(document_at(name_end + 1 + 8)?.0);
    }
    let mut at = 4;
    let mut out = Document::new();
    while at < body.len() {
        match body[at] {
            0 => {
                let (document, next) = document_at(at + 1)?;
                // The command's name must stay the first key, in whatever order the sections came.
                let sequences = std::mem::replace(&mut out, document);
                out.extend(sequences);
                at = next;
            }
            _ => {
                let end = at
                    + 1
                    + i32::from_le_bytes(body.get(at + 1..at + 5)?.try_into().ok()?) as usize;
                let name_end = at + 5 + body.get(at + 5..)?.iter().position(|byte| *byte == 0)?;
                let name = String::from_utf8(body[at + 5..name_end].to_vec()).ok()?;
                let mut items = Vec::new();
                at = name_end + 1;
                while at < end {
                    let (document, next) = document_at(at)?;
                    items.push(Bson::Document(document));
                    at = next;
                }
                out.insert(name, items);
            }
        }
    }
    Some(out)
}
