//! The page of judged claims by study: each claim with the published result, the new result, the
//! verdict and its reason.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::html::{capital, escape, foot, head};
use crate::claims::{ClaimVerdict, Finding, Judgement};
use crate::format;
use crate::result::RunResult;

/// The names of the studies.
const STUDIES: [&str; 5] = [
    "Insert benchmark and ForestDB pattern on MongoDB's engines, 2015",
    "InnoDB, TokuMX and MongoDB compared, 2014",
    "WiredTiger and RocksDB under db_bench, 2013",
    "Percona Server for MongoDB under iiBench, 2015",
    "MongoDB on RocksDB at Parse, 2015",
];

/// The page.
pub fn claims_page(judgements: &[Judgement], runs: &[RunResult]) -> String {
    let mut out = head("Claims of the studies");
    let count = |wanted: ClaimVerdict| {
        judgements
            .iter()
            .filter(|judgement| judgement.outcome == wanted)
            .count()
    };
    let _ = writeln!(
        out,
        "<div class=\"eyebrow\"><span>quarry-lab</span><span>{} runs</span></div>\n<h1>Claims of \
            the studies, judged</h1>\n\
         <p class=\"verdict\">{} confirmed, {} refuted, {} inconclusive; {} without runs, {} not \
         runnable yet.</p>",
        runs.len(),
        count(ClaimVerdict::Confirmed),
        count(ClaimVerdict::Refuted),
        count(ClaimVerdict::Inconclusive),
        count(ClaimVerdict::NotRun),
        count(ClaimVerdict::NotRunnable)
    );
    out.push_str(
        "<p class=\"muted\">With three repeats or more a condition is confirmed if the 95 % \
            interval of its metric (Student's t, of ratios on \
         logarithms) lies within the rule, refuted if it lies outside, else inconclusive. A claim \
         needs all its conditions.</p>\n",
    );
    let presets: BTreeSet<&str> = runs
        .iter()
        .map(|run| run.settings.preset.as_str())
        .collect();
    if presets.contains("smoke") {
        out.push_str(
            "<ul class=\"notes\"><li>Judged from runs of smoke size: small data, short \
            runs. The verdicts hold for these runs only.</li></ul>\n",
        );
    }
    for (study, title) in STUDIES.iter().enumerate() {
        let mine: Vec<&Judgement> = judgements
            .iter()
            .filter(|judgement| usize::from(judgement.study) == study)
            .collect();
        write_study(&mut out, title, &mine);
    }
    out.push_str(&foot("All numbers are in claims.json beside this page."));
    out
}

fn write_study(out: &mut String, title: &str, mine: &[&Judgement]) {
    if mine.is_empty() {
        return;
    }
    let judged = |judgement: &&&Judgement| {
        !matches!(
            judgement.outcome,
            ClaimVerdict::NotRun | ClaimVerdict::NotRunnable
        )
    };
    let _ = writeln!(out, "<h2>{}</h2>", escape(title));
    if mine.iter().any(|judgement| judged(&judgement)) {
        out.push_str(
            "<div class=\"card scroll\"><table class=\"claims\"><thead><tr><th \
                scope=\"col\">claim</th><th scope=\"col\">published</th>\
             <th scope=\"col\">found, 95 % interval</th><th scope=\"col\">verdict</th><th \
             scope=\"col\">because</th></tr></thead>\n",
        );
        mine.iter()
            .filter(judged)
            .for_each(|judgement| write_claim(out, judgement));
        out.push_str("</table></div>\n");
    }
    let rest: Vec<&&Judgement> = mine.iter().filter(|judgement| !judged(judgement)).collect();
    if rest.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<details><summary>{} without a verdict</summary><ul class=\"open-claims\">",
        rest.len()
    );
    for judgement in rest {
        let _ = writeln!(
            out,
            "<li id=\"{}\"><strong>{}</strong> {}: <span class=\"muted\">{}</span></li>",
            anchor_id(judgement),
            escape(&judgement.id),
            escape(&capital(&judgement.statement)),
            escape(&judgement.remark)
        );
    }
    out.push_str("</ul></details>\n");
}

fn anchor_id(judgement: &Judgement) -> String {
    escape(
        &format!("{}-{}", judgement.id, judgement.target)
            .replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"),
    )
}

fn pill(outcome: ClaimVerdict) -> String {
    let class = match outcome {
        ClaimVerdict::Confirmed => "good",
        ClaimVerdict::Refuted => "bad",
        _ => "plain",
    };
    format!("<span class=\"pill {class}\">{}</span>", outcome.name())
}

/// A row for each condition; the cells of the claim and of the published result span all of them.
fn write_claim(out: &mut String, judgement: &Judgement) {
    let rows = judgement.findings.len().max(1);
    let _ = write!(
        out,
        "<tbody id=\"{}\"><tr><th scope=\"rowgroup\" rowspan=\"{rows}\"><strong>{}</strong> \
            {}<span class=\"muted line\">Rule: {}</span>\
         <span class=\"muted line\">{}</span><span class=\"line\">{}</span></th><td \
         rowspan=\"{rows}\">{}</td>",
        anchor_id(judgement),
        escape(&judgement.id),
        escape(&capital(&judgement.statement)),
        escape(&judgement.rule),
        escape(&judgement.target),
        if rows > 1 {
            format!("All together: {}", pill(judgement.outcome))
        } else {
            String::new()
        },
        escape(&judgement.published),
    );
    for (number, finding) in judgement.findings.iter().enumerate() {
        let remark = if number + 1 == rows && !judgement.remark.is_empty() {
            format!(
                "<span class=\"muted line\">{}</span>",
                escape(&judgement.remark)
            )
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "{}<td><strong>{}</strong><span class=\"muted \
                line\">{}</span></td><td>{}</td><td>{}{remark}</td></tr>",
            if number > 0 { "<tr>" } else { "" },
            escape(&format_finding(finding)),
            escape(&capital(&finding.what)),
            pill(finding.outcome),
            escape(&capital(&finding.because)),
        );
    }
    if judgement.findings.is_empty() {
        out.push_str("<td></td><td></td><td></td></tr>");
    }
    out.push_str("</tbody>\n");
}

fn format_finding(finding: &Finding) -> String {
    let number = format::number;
    match finding.found {
        None => "no value".to_owned(),
        Some(found) if found.low < found.high => format!(
            "{} ({} to {})",
            number(found.mean),
            number(found.low),
            number(found.high)
        ),
        Some(found) => number(found.mean),
    }
}
