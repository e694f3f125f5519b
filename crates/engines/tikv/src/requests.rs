//! The number of requests that this process has sent to the cluster, as the client counts them:
//! including retries and the removal of locks.
//!
//! Must not know: the purpose of requests.

/// Names of the client's counters, and the prefix for their kinds of requests.
const COUNTERS: &[(&str, &str)] = &[("tikv_request_total", ""), ("pd_request_total", "pd_")];

/// Reports each kind of request and its number.
pub(crate) fn report_counts(each: &mut dyn FnMut(&str, u64)) {
    for family in prometheus::gather() {
        let Some((_, before)) = COUNTERS.iter().find(|(name, _)| *name == family.get_name()) else {
            continue;
        };
        for metric in family.get_metric() {
            let kind = metric
                .get_label()
                .iter()
                .find(|label| label.get_name() == "type");
            let kind = kind.map_or("", |label| label.get_value());
            // The counters are floats; they are exact far beyond any number of requests.
            each(
                &format!("{before}{kind}"),
                metric.get_counter().get_value() as u64,
            );
        }
    }
}
