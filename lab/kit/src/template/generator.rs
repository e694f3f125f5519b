//! Generators and the values that they draw.

use rand::Rng;

use super::tree::{Tree, Variables};
use crate::draw::{KeyDistribution, Zipf};
use crate::seed::Stream;
use crate::text::{WORDS, random_text, word_numbered};

/// How numbers of a range are drawn.
#[derive(Clone, Debug)]
pub(super) enum Distribution {
    /// All numbers equally often.
    Uniform,
    /// Zipf with 0.99: low numbers far more often.
    Zipf(Zipf),
    /// Normal around the middle of the range; the standard deviation is a sixth of the range.
    Normal,
    /// Low numbers more often; the mean is a tenth of the range.
    Exponential,
}

impl Distribution {
    /// Draws a fraction of a range, from 0 to below 1.
    fn share(&self, random: &mut Stream) -> f64 {
        match self {
            Self::Normal => {
                let sum: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
                (0.5 + sum / 6.0).clamp(0.0, 1.0 - f64::EPSILON)
            }
            Self::Exponential => {
                let drawn = -(1.0 - random.random::<f64>()).ln() / 10.0;
                drawn.min(1.0 - f64::EPSILON)
            }
            Self::Uniform | Self::Zipf(_) => random.random::<f64>(),
        }
    }

    fn integer(&self, random: &mut Stream, low: i64, high: i64) -> i64 {
        let count = high.abs_diff(low).saturating_add(1);
        let at = match self {
            Self::Uniform => random.random_range(0..count),
            // The constants were computed when the file was read.
            Self::Zipf(zipf) => zipf.clone().draw(random, count),
            Self::Normal | Self::Exponential => (self.share(random) * count as f64) as u64,
        };
        low.saturating_add_unsigned(at.min(count - 1))
    }
}

/// A value of a file: a constant, a generator, or an object or array of such values.
#[derive(Clone, Debug)]
pub enum Template {
    /// A constant value.
    Constant(Tree),
    /// Named values.
    Object(Vec<(String, Template)>),
    /// Values in order.
    Array(Vec<Template>),
    /// A generator.
    Drawn(Box<Generator>),
}

/// A generator of values.
#[derive(Clone, Debug)]
pub enum Generator {
    /// A whole number of a range.
    #[allow(private_interfaces)]
    Int(i64, i64, Distribution),
    /// A fraction of a range.
    #[allow(private_interfaces)]
    Double(f64, f64, Distribution),
    /// One of some values, by weight.
    Choice(Vec<(Tree, f64)>),
    /// Text: the smallest and the largest length, and the percentage of random letters.
    Text(u32, u32, u32),
    /// Words of a vocabulary: the smallest and the largest count; common words are far more
    /// frequent.
    #[allow(private_interfaces)]
    Words(u32, u32, Distribution),
    /// Digits.
    Digits(u32),
    /// Letters; their number grows from the first document to the last.
    Growing(u32, u32),
    /// True with this percentage.
    Bool(f64),
    /// A time, at most this many seconds ago.
    Time(f64),
    /// The number of the document, from 1.
    Number,
    /// The number of the client, from 0.
    Client,
    /// The number of statements that the client has drawn in the step, including this one.
    Sequence,
    /// The id of a document that exists.
    Existing(KeyDistribution),
    /// A value that `let` named.
    Variable(String),
    /// An array of repeated draws of a value: the smallest and the largest length.
    Repeat(u32, u32, Template),
    /// The value with this percentage, else no field.
    Maybe(f64, Template),
}

/// The inputs of a draw.
pub struct DrawContext<'a> {
    /// Random numbers.
    pub random: &'a mut Stream,
    /// The number of the document.
    pub number: u64,
    /// The number of documents in all.
    pub rows: u64,
    /// The number of the client; documents of a load have 0.
    pub client: u32,
    /// The number of statements that the client has drawn; for documents of a load, their number.
    pub sequence: u64,
    /// The time.
    pub now_ms: i64,
    /// The variables of `let`.
    pub variables: &'a Variables,
    /// Draws the id of a document that exists.
    pub existing: &'a mut dyn FnMut(&mut Stream, KeyDistribution) -> Tree,
}

impl Template {
    /// Draws a value.
    pub fn draw(&self, draws: &mut DrawContext<'_>) -> Tree {
        self.draw_if_any(draws).unwrap_or(Tree::Null)
    }

    /// Adds the names of the variables that the template uses.
    pub(super) fn variables(&self, out: &mut Vec<String>) {
        match self {
            Self::Constant(_) => {}
            Self::Object(fields) => fields.iter().for_each(|(_, value)| value.variables(out)),
            Self::Array(items) => items.iter().for_each(|item| item.variables(out)),
            Self::Drawn(generator) => match generator.as_ref() {
                Generator::Variable(name) => out.push(name.clone()),
                Generator::Repeat(_, _, item) | Generator::Maybe(_, item) => item.variables(out),
                _ => {}
            },
        }
    }

    pub(super) fn draw_if_any(&self, draws: &mut DrawContext<'_>) -> Option<Tree> {
        Some(match self {
            Self::Constant(value) => value.clone(),
            Self::Object(fields) => Tree::Object(
                fields
                    .iter()
                    .filter_map(|(name, value)| Some((name.clone(), value.draw_if_any(draws)?)))
                    .collect(),
            ),
            Self::Array(items) => Tree::Array(
                items
                    .iter()
                    .filter_map(|item| item.draw_if_any(draws))
                    .collect(),
            ),
            Self::Drawn(generator) => return generator.draw(draws),
        })
    }
}

impl Generator {
    fn draw(&self, draws: &mut DrawContext<'_>) -> Option<Tree> {
        let random = &mut *draws.random;
        let integer = |number: u64| Tree::integer(i64::try_from(number).unwrap_or(i64::MAX));
        Some(match self {
            Self::Int(low, high, distribution) => {
                Tree::integer(distribution.integer(random, *low, *high))
            }
            Self::Double(low, high, distribution) => {
                Tree::Double(low + (high - low) * distribution.share(random))
            }
            Self::Choice(values) => {
                let total: f64 = values.iter().map(|(_, weight)| weight).sum();
                let mut left = random.random::<f64>() * total;
                let found = values.iter().find(|(_, weight)| {
                    left -= weight;
                    left < 0.0
                });
                found
                    .or(values.last())
                    .map_or(Tree::Null, |(value, _)| value.clone())
            }
            Self::Text(low, high, percent) => {
                let length = random.random_range(*low..=*high);
                Tree::Text(random_text(random, length, *percent))
            }
            Self::Words(low, high, distribution) => {
                let last = i64::from(WORDS) - 1;
                let count = random.random_range(*low..=*high);
                let words = (0..count).map(|_| distribution.integer(random, 0, last));
                let words: Vec<String> = words.map(word_numbered).collect();
                Tree::Text(words.join(" "))
            }
            Self::Digits(count) => Tree::Text(
                (0..*count)
                    .map(|_| char::from(b'0' + random.random_range(0..10_u8)))
                    .collect(),
            ),
            Self::Growing(low, high) => {
                let share = draws.number as f64 / draws.rows.max(1) as f64;
                let length = f64::from(*low) + f64::from(high - low) * share.min(1.0);
                Tree::Text(random_text(random, length as u32, 50))
            }
            Self::Bool(percent) => Tree::Bool(random.random::<f64>() * 100.0 < *percent),
            Self::Time(seconds) => {
                let ago = (random.random::<f64>() * seconds * 1e3) as i64;
                Tree::Date(draws.now_ms.saturating_sub(ago))
            }
            Self::Number => integer(draws.number),
            Self::Client => integer(u64::from(draws.client)),
            Self::Sequence => integer(draws.sequence),
            Self::Existing(draw) => (draws.existing)(random, *draw),
            Self::Variable(name) => draws.variables.get(name).cloned().unwrap_or(Tree::Null),
            Self::Repeat(low, high, item) => {
                let count = random.random_range(*low..=*high);
                Tree::Array((0..count).filter_map(|_| item.draw_if_any(draws)).collect())
            }
            Self::Maybe(percent, value) => {
                if random.random::<f64>() * 100.0 >= *percent {
                    return None;
                }
                return value.draw_if_any(draws);
            }
        })
    }
}

/// Draws a value outside of clients, with the same result each time.
pub(super) fn draw_constant(template: &Template) -> Tree {
    template.draw(&mut DrawContext {
        random: &mut crate::seed::from(0),
        number: 1,
        rows: 1,
        client: 0,
        sequence: 1,
        now_ms: 0,
        variables: &Variables::new(),
        existing: &mut |_, _| Tree::Int(1),
    })
}

/// Draws a command or pipeline that is used outside of clients.
pub fn constant(table: &toml::Table) -> Tree {
    let template = Template::table(table).unwrap_or(Template::Constant(Tree::Null));
    draw_constant(&template)
}

/// A Zipf distribution over `count` numbers, with its constants.
pub(super) fn zipf(count: u64) -> Distribution {
    let mut zipf = Zipf::default();
    // The first draw computes the constants.
    let _ = zipf.draw(&mut crate::seed::from(0), count.max(1));
    Distribution::Zipf(zipf)
}

/// Draws the number of an existing document; `count` documents from number `first` on exist.
pub fn draw_existing(
    random: &mut Stream,
    draw: KeyDistribution,
    zipf: &mut Zipf,
    first: u64,
    count: u64,
) -> u64 {
    first + draw.row(random, zipf, count)
}
