//! Why a run ended early. Must not know: steps, targets.

/// Why a run ended early. A target may be killed by its memory limit, in MiB, even after it has
/// answered the last call: while it settles.
pub(super) fn end_reason(reason: Option<String>, killed_by_mb: Option<u64>) -> Option<String> {
    let Some(mb) = killed_by_mb else {
        return reason;
    };
    let when = reason.unwrap_or_else(|| "after its last answer".to_owned());
    Some(format!(
        "the memory limit of {mb} MiB killed the target ({when})"
    ))
}

#[cfg(test)]
mod tests {
    use super::end_reason;

    #[test]
    fn a_target_that_was_killed_after_its_last_answer_ends_the_run_early() {
        let killed = "the memory limit of 128 MiB killed the target";
        let after = end_reason(None, Some(128));
        assert_eq!(after, Some(format!("{killed} (after its last answer)")));
        let within = end_reason(Some("no reply".to_owned()), Some(128));
        assert_eq!(within, Some(format!("{killed} (no reply)")));
        assert_eq!(end_reason(None, None), None);
    }
}
