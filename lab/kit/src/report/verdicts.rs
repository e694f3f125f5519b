//! The page of judged claims: a verdict each, the figures that decided, the published ones beside them.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{capital, escape, foot, head};
use crate::claims::{Finding, Judgement, Outcome};
use crate::format;
use crate::result::RunResult;

/// The page.
pub fn claims_page(judgements: &[Judgement], runs: &[RunResult]) -> String {
    let mut out = head("Claims of the studies");
    let count = |wanted: Outcome| judgements.iter().filter(|judgement| judgement.outcome == wanted).count();
    let _ = writeln!(
        out,
        "<div class=\"eyebrow\"><span>quarry-lab</span><span>{} runs</span></div>\n<h1>Claims of the studies, judged</h1>\n\
         <p class=\"verdict\">{} confirmed, {} refuted, {} inconclusive; {} without runs, {} not runnable yet.</p>",
        runs.len(),
        count(Outcome::Confirmed),
        count(Outcome::Refuted),
        count(Outcome::Inconclusive),
        count(Outcome::NotRun),
        count(Outcome::NotRunnable)
    );
    out.push_str(
        "<p class=\"muted\">With three repeats or more a condition is confirmed if the 95 % interval of its figure (Student's t, of ratios on \
         logarithms) lies within the rule, refuted if it lies outside, else inconclusive. A claim needs all its conditions.</p>\n",
    );
    let presets: BTreeSet<&str> = runs.iter().map(|run| run.settings.preset.as_str()).collect();
    if presets.contains("smoke") {
        out.push_str("<ul class=\"notes\"><li>Judged from runs of smoke size: small data, short runs. The verdicts hold for these runs only.</li></ul>\n");
    }
    for (title, wanted) in [
        ("Judged", &[Outcome::Confirmed, Outcome::Refuted, Outcome::Inconclusive][..]),
        ("Without runs", &[Outcome::NotRun]),
        ("Not runnable yet", &[Outcome::NotRunnable]),
    ] {
        let mine: Vec<&Judgement> = judgements.iter().filter(|judgement| wanted.contains(&judgement.outcome)).collect();
        if mine.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "<h2>{title}</h2>\n<div class=\"card scroll\"><table class=\"claims\"><thead><tr><th scope=\"col\">claim</th><th scope=\"col\">verdict</th>\
             <th scope=\"col\">what was found</th><th scope=\"col\">published</th></tr></thead><tbody>"
        );
        for judgement in mine {
            write_row(&mut out, judgement);
        }
        out.push_str("</tbody></table></div>\n");
    }
    out.push_str(&foot("All numbers are in claims.json beside this page."));
    out
}

fn write_row(out: &mut String, judgement: &Judgement) {
    let class = match judgement.outcome {
        Outcome::Confirmed => "good",
        Outcome::Refuted => "bad",
        _ => "plain",
    };
    let _ = write!(
        out,
        "<tr id=\"{}\"><th scope=\"row\"><strong>{}</strong> {}<br><span class=\"muted\">Rule: {}</span></th>\
         <td><span class=\"pill {class}\">{}</span><br><span class=\"muted\">{}</span></td><td>",
        escape(&format!("{}-{}", judgement.id, judgement.target).replace(|letter: char| !letter.is_ascii_alphanumeric(), "-")),
        escape(&judgement.id),
        escape(&capital(&judgement.statement)),
        escape(&judgement.rule),
        judgement.outcome.name(),
        escape(&judgement.target)
    );
    for finding in &judgement.findings {
        let _ = write!(out, "<p>{}</p>", escape(&sentence(finding)));
    }
    let _ = writeln!(out, "<p class=\"muted\">{}</p></td><td>{}</td></tr>", escape(&judgement.remark), escape(&judgement.published));
}

fn sentence(finding: &Finding) -> String {
    let number = format::number;
    let found = finding.found.map_or_else(
        || "no figure".to_owned(),
        |found| {
            if found.low < found.high { format!("{} ({} to {})", number(found.mean), number(found.low), number(found.high)) } else { number(found.mean) }
        },
    );
    let mut out = format!("{}: {found}; rule {}: {}", finding.what, finding.rule, finding.outcome.name());
    if !finding.because.is_empty() {
        let _ = write!(out, " ({})", finding.because);
    }
    out.push('.');
    out
}
