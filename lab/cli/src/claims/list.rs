//! The terminal output of claims: their list, and the verdicts.

use lab_kit::claims::{self, Claim, ClaimVerdict, Judgement};

use super::arguments::ClaimsArguments;
use super::plan::{missing_reason, run_in_words};

pub(super) fn list(arguments: &ClaimsArguments, claims: &[Claim], cpus: usize) {
    let has_targets = !arguments.target.is_empty() || arguments.own.is_some();
    for claim in claims {
        print_line!("{} {}", claim.id, claim.statement);
        if let Some(needs) = &claim.needs {
            print_line!("    not runnable yet: needs {needs}");
            continue;
        }
        let needed = claim.required_runs(cpus);
        let mut runs: Vec<String> = needed.iter().map(run_in_words).collect();
        runs.dedup();
        let systems = claim.systems();
        let of = if systems.is_empty() {
            String::new()
        } else {
            format!("; targets of the kinds {}", systems.join(", "))
        };
        print_line!("    runs: {}{of}", runs.join("; "));
        if let Some(difference) = claim.differ.as_deref().and_then(claims::difference) {
            let [first, second] = difference.sides;
            print_line!(
                "    two targets that differ in {} ({}): --target is {first}, --versus is {second}",
                difference.name,
                difference.about
            );
        }
        if has_targets && let Some(missing) = missing_reason(arguments, claim) {
            print_line!("    missing: {missing}");
        }
    }
    let open = claims.iter().filter(|claim| !claim.is_runnable()).count();
    print_line!(
        "{} claims, {} runnable, {open} not yet",
        claims.len(),
        claims.len() - open
    );
}

pub(super) fn print(judgements: &[Judgement]) {
    for judgement in judgements {
        let target = if judgement.target.is_empty() {
            String::new()
        } else {
            format!(" [{}]", judgement.target)
        };
        print_line!(
            "{} {}{target}: {}",
            judgement.id,
            judgement.outcome.name(),
            judgement.statement
        );
        for finding in &judgement.findings {
            let found = finding.found.map_or_else(
                || "nothing".to_owned(),
                |found| {
                    let number = lab_kit::format::number;
                    format!(
                        "{} ({} to {})",
                        number(found.mean),
                        number(found.low),
                        number(found.high)
                    )
                },
            );
            print_line!(
                "    {}: {found}, rule {}: {}; {}",
                finding.what,
                finding.rule,
                finding.outcome.name(),
                finding.because
            );
        }
        if !judgement.remark.is_empty() {
            print_line!("    {}", judgement.remark);
        }
    }
    let count = |wanted: ClaimVerdict| {
        judgements
            .iter()
            .filter(|judgement| judgement.outcome == wanted)
            .count()
    };
    let all = [
        ClaimVerdict::Confirmed,
        ClaimVerdict::Refuted,
        ClaimVerdict::Inconclusive,
        ClaimVerdict::NotRun,
        ClaimVerdict::NotRunnable,
    ];
    let counts: Vec<String> = all
        .iter()
        .map(|outcome| format!("{} {}", count(*outcome), outcome.name()))
        .collect();
    print_line!("{}", counts.join(", "));
}
