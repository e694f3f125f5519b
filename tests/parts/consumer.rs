//! Reads the log of changes from the server's start on and keeps how far it is.

use super::worker::{Class, NextRound, Worker, never};
use std::time::Duration;
use store::{Lifetime, LogConsumer};

pub(super) static WORKER: Worker = Worker {
    name: "toyConsumer",
    class: Class::Shared,
    period: Duration::from_millis(200),
    is_due_early: never,
    work: || {
        let mut consumer: Option<LogConsumer> = None;
        Box::new(move |service, _| {
            if consumer.is_none() {
                let Some(log) = service.store.log() else {
                    return Ok(NextRound::Ended);
                };
                let now = log.visible();
                consumer = service.store.consume_log("toy", now, Lifetime::Durable)?;
            }
            let Some(consumer) = consumer.as_mut() else {
                return Ok(NextRound::Ended);
            };
            consumer.visit(1000, &mut |_, _| true)?;
            consumer.pause();
            consumer.save(consumer.next(), &mut |_| Ok(()))?;
            Ok(NextRound::Again)
        })
    },
    error: ("CONTROL", "the toy consumer failed"),
};
