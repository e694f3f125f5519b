//! The language of queries: filters, updates, projections, expressions, pipelines.

use crate::{peak, tree};
use model::{Bump, DocBuf, Namespace, Value, doc};
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::project::Projection;
use operators::update::{Update, UpdateCx, UpdateResult};
use operators::{Cx, Env};
use proof::fuzz::{Fuzz, FuzzResult, Limit, Outcome, number_of};
use serde_json::{Value as Json, json};

/// Documents on which specifications are tried.
fn documents() -> Vec<DocBuf> {
    vec![
        doc! { "_id": 1i32, "a": 5i32, "b": { "c": 2.5, "d": "x" },
        "c": [1i32, 2i32, { "b": 3i32 }], "s": "exact phrase",
        "t": Value::Date(1_700_000_000_000) },
        doc! { "a": [], "b": [{ "c": 1i32 }, { "c": [Value::Null] }], "d": Value::Null },
        DocBuf::new(),
    ]
}

fn run(
    name: &str,
    corpus: &[Json],
    inputs: usize,
    mut check: impl FnMut(&DocBuf) -> Outcome,
) -> FuzzResult {
    let fuzz = Fuzz {
        name,
        limit: Limit::of(inputs),
        corpus,
        change: tree::change,
        show: tree::show,
    };
    fuzz.run(|json| {
        let Some(d) = tree::document(json) else {
            return Outcome::Refused(0);
        };
        let (outcome, held) = peak::measure_peak(|| check(&d));
        let most = d.doc().as_bytes().len() * 1000 + (40 << 20);
        assert!(
            held <= most,
            "{held} bytes for {}",
            d.doc().as_bytes().len()
        );
        outcome
    })
}

fn check_well_formed(d: model::Doc<'_>) {
    assert!(model::validate(d.as_bytes()).is_ok(), "{d:?}");
}

#[test]
fn filters() {
    let corpus = tree::corpus(include_str!("../../corpus/filters.json"));
    let documents = documents();
    let tried = run("filters", &corpus, 4_000, |spec| {
        let env = Env::new(0, 1);
        let filter = Filter::parse(&mut ParseCx::new(&env), spec.doc());
        if let Ok(filter) = &filter {
            for d in &documents {
                let arena = Bump::new();
                let _ = filter.matches(d.doc(), &arena, &env);
            }
        }
        Outcome::of(&filter, |_| {
            number_of(spec.doc().first().map(|(name, _)| name))
        })
    });
    assert!(tried.accepted > 200, "{tried:?}");
}

#[test]
fn updates() {
    let corpus = tree::corpus(include_str!("../../corpus/updates.json"));
    let documents = documents();
    let tried = run("updates", &corpus, 4_000, |spec| {
        let env = Env::new(0, 1);
        let d = spec.doc();
        let filters = Some(d.field("f")).filter(|f| !matches!(f, Value::Missing));
        let update = Update::parse(&mut ParseCx::new(&env), d.field("u"), filters);
        if let Ok(update) = &update {
            for (i, d) in documents.iter().enumerate() {
                let arena = Bump::new();
                let cx = UpdateCx {
                    arena: &arena,
                    env: &env,
                    inserting: i == 2,
                    position: Some(0),
                };
                if let Ok(UpdateResult::Changed(new)) = update.apply(d.doc(), &cx) {
                    check_well_formed(new);
                }
            }
        }
        Outcome::of(&update, |_| {
            let first = d
                .field("u")
                .as_doc()
                .and_then(|u| u.first().map(|(name, _)| name));
            number_of(first)
        })
    });
    assert!(tried.accepted > 200, "{tried:?}");
}

#[test]
fn projections_and_expressions() {
    let corpus: Vec<Json> = tree::corpus(include_str!("../../corpus/pipelines.json"))
        .iter()
        .flat_map(|p| p["p"].as_array().cloned().unwrap_or_default())
        .flat_map(|stage| stage.as_object().cloned().unwrap_or_default())
        .map(|(_, arguments)| json!({ "e": arguments }))
        .collect();
    let documents = documents();
    let tried = run("expressions", &corpus, 3_000, |spec| {
        let env = Env::new(0, 1);
        let value = spec.doc().field("e");
        let mut cx = ParseCx::new(&env);
        let shapes = [
            Projection::parse_project(&mut cx, value),
            Projection::parse_add_fields(&mut cx, "$set", value),
        ];
        let parsed = operators::expr::parse(&mut cx, value);
        for d in &documents {
            let arena = Bump::new();
            let at = Cx::new(&arena, Value::Document(d.doc()), &env);
            for shape in shapes.iter().flatten() {
                if let Ok(out) = shape.apply_at(&at, d.doc(), None) {
                    check_well_formed(out);
                }
            }
            if let Ok(e) = &parsed {
                let _ = e.eval(&at);
            }
        }
        Outcome::of(&parsed, |_| {
            number_of(value.as_doc().and_then(|d| d.first().map(|(name, _)| name)))
        })
    });
    assert!(tried.accepted > 200, "{tried:?}");
}

#[test]
fn pipelines() {
    let corpus = tree::corpus(include_str!("../../corpus/pipelines.json"));
    let options = query::stages::collection_options(Namespace::new("d", "c").expect("a name"));
    let tried = run("pipelines", &corpus, 3_000, |spec| {
        let env = Env::new(0, 1);
        let Some(stages) = spec.doc().field("p").as_array() else {
            return Outcome::Refused(1);
        };
        let mut cx = ParseCx::new(&env);
        let parsed = query::pipeline::Pipeline::parse(&mut cx, stages, &options);
        let needs = query::stage::pipeline_needs(stages, &options);
        // The needs of every pipeline that parses must be readable.
        assert!(
            parsed.is_err() || needs.is_ok(),
            "runs, and its needs cannot be read"
        );
        Outcome::of(&parsed, |_| number_of(stages.iter().count()))
    });
    assert!(tried.accepted > 80, "{tried:?}");
}
