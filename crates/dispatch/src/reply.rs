//! The fields at the end of every reply: `ok`, errors, cluster time.

use model::{DocWriter, MongoError, Timestamp};
use state::service::Service;

/// Appends `ok: 1` and, on a replica set, the times.
pub(crate) fn finish(
    service: &Service,
    ok_int: bool,
    operation_time: Timestamp,
    reply: &mut DocWriter<'_>,
) {
    if ok_int {
        reply.put("ok", 1i32);
    } else {
        reply.put("ok", 1.0);
    }
    gossip(service, operation_time, reply);
}

/// Writes an error reply.
pub(crate) fn error(service: &Service, e: &MongoError, reply: &mut DocWriter<'_>) {
    if !e.labels().is_empty() {
        let mut labels = reply.array("errorLabels");
        for label in e.labels() {
            labels.push(*label);
        }
    }
    reply.put("ok", 0.0);
    reply.put("errmsg", e.message());
    reply.put("code", e.code());
    reply.put("codeName", e.code_name().as_str());
    if let Some(extra) = e.extra_fields() {
        reply.put_all(extra.doc());
    }
    if NOT_PRIMARY.contains(&e.code()) && service.config.replica_set.is_some() {
        // Drivers use it to ignore an error that belongs to an older state of the server.
        topology_version(service, reply);
    }
    gossip(service, service.operation_time(), reply);
}

/// Errors that say that the server is not a primary.
const NOT_PRIMARY: &[i32] = &[189, 10_058, 10_107, 11_602, 13_435, 13_436];

/// Writes the version of the server state that the reply belongs to.
pub(crate) fn topology_version(service: &Service, reply: &mut DocWriter<'_>) {
    let mut version = reply.doc("topologyVersion");
    version.put("processId", service.process_id);
    version.put("counter", service.topology_counter());
}

fn gossip(service: &Service, operation_time: Timestamp, reply: &mut DocWriter<'_>) {
    if service.config.replica_set.is_some() {
        let now: Timestamp = service.cluster_time().max(operation_time);
        {
            let mut time = reply.doc("$clusterTime");
            time.put("clusterTime", now);
            let mut signature = time.doc("signature");
            signature.put(
                "hash",
                model::Binary {
                    subtype: 0,
                    bytes: &[0; 20],
                },
            );
            signature.put("keyId", 0i64);
        }
        reply.put("operationTime", operation_time);
    }
}
