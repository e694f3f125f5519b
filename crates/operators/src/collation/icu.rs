//! The string order of a complete collation, by ICU4X. Knows the library, not the collation
//! document.

use super::locale;
use super::spec::{CaseFirst, Spec};
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::provider::{
    Baked, CollationDiacriticsV1, CollationJamoV1, CollationMetadataV1, CollationReorderingV1,
    CollationRootV1, CollationSpecialPrimariesV1, CollationTailoringV1,
};
use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use icu_normalizer::provider::{NormalizerNfdDataV1, NormalizerNfdTablesV1};
use icu_provider::{DataError, DataPayload, DataProvider, DataRequest, DataResponse};
use model::{Collate, MongoError, Result, code};
use std::cmp::Ordering;

/// A collator of ICU4X.
pub(super) enum Icu {
    /// With the locale data compiled into the program.
    Static(CollatorBorrowed<'static>),
    /// With the locale's direction of the accent level overridden.
    Turned(Box<Collator>),
}

impl Icu {
    /// # Errors
    /// 238 NotImplemented when the library has no data for the locale.
    pub(super) fn new(spec: &Spec<'_>) -> Result<Icu> {
        let missing = |why: &str| {
            MongoError::new(
                code::NOT_IMPLEMENTED,
                format!(
                    "collation locale '{}' is not supported by this server{why}",
                    spec.locale
                ),
            )
        };
        let tag = locale::tag(spec.locale)
            .ok_or_else(|| missing(": its tailoring is not part of the collation data"))?;
        let locale: Locale = tag.parse().map_err(|e| missing(&format!(": {e}")))?;
        let mut prefs = CollatorPreferences::from(&locale);
        prefs.case_first = Some(match spec.case_first {
            CaseFirst::Upper => CollationCaseFirst::Upper,
            CaseFirst::Lower => CollationCaseFirst::Lower,
            CaseFirst::Off => CollationCaseFirst::False,
        });
        prefs.numeric_ordering = Some(if spec.numeric_ordering {
            CollationNumericOrdering::True
        } else {
            CollationNumericOrdering::False
        });
        let mut options = CollatorOptions::default();
        options.strength = Some(match spec.strength {
            1 => Strength::Primary,
            2 => Strength::Secondary,
            3 => Strength::Tertiary,
            4 => Strength::Quaternary,
            _ => Strength::Identical,
        });
        options.alternate_handling = Some(if spec.shifted {
            AlternateHandling::Shifted
        } else {
            AlternateHandling::NonIgnorable
        });
        options.max_variable = Some(if spec.max_space {
            MaxVariable::Space
        } else {
            MaxVariable::Punctuation
        });
        options.case_level = Some(if spec.case_level {
            CaseLevel::On
        } else {
            CaseLevel::Off
        });
        let made = if spec.backwards == locale::defaults(spec.locale).backwards {
            CollatorBorrowed::try_new(prefs, options).map(Icu::Static)
        } else {
            let provider = CollationProvider(spec.backwards);
            Collator::try_new_unstable(&provider, prefs, options).map(|c| Icu::Turned(Box::new(c)))
        };
        made.map_err(|e| missing(&format!(": {e}")))
    }
}

impl Collate for Icu {
    fn compare(&self, a: &str, b: &str) -> Ordering {
        match self {
            Icu::Static(c) => c.compare(a, b),
            Icu::Turned(c) => c.as_borrowed().compare(a, b),
        }
    }

    fn sort_key(&self, s: &str, out: &mut Vec<u8>) {
        let Ok(()) = match self {
            Icu::Static(c) => c.write_sort_key_utf8_to(s.as_bytes(), out),
            Icu::Turned(c) => c.as_borrowed().write_sort_key_utf8_to(s.as_bytes(), out),
        };
    }
}

/// The compiled data with one bit of the locale's metadata set or cleared: the library reads the
/// direction of the accent level only from data, but a collation document may set it.
struct CollationProvider(bool);

/// The bit in `CollationMetadata` for this direction.
const BACKWARD_SECOND_LEVEL: u32 = 1 << 7;

impl DataProvider<CollationMetadataV1> for CollationProvider {
    fn load(
        &self,
        req: DataRequest<'_>,
    ) -> std::result::Result<DataResponse<CollationMetadataV1>, DataError> {
        let found = DataProvider::<CollationMetadataV1>::load(&Baked, req)?;
        let mut own = *found.payload.get();
        own.bits = if self.0 {
            own.bits | BACKWARD_SECOND_LEVEL
        } else {
            own.bits & !BACKWARD_SECOND_LEVEL
        };
        Ok(DataResponse {
            metadata: found.metadata,
            payload: DataPayload::from_owned(own),
        })
    }
}

macro_rules! unchanged {
    ($source:path: $($marker:ty),*) => {$(
        impl DataProvider<$marker> for CollationProvider {
            fn load(&self, req: DataRequest<'_>) -> std::result::Result<DataResponse<$marker>,
                DataError> {
                DataProvider::<$marker>::load(&$source, req)
            }
        }
    )*};
}
unchanged!(Baked: CollationDiacriticsV1, CollationJamoV1, CollationReorderingV1, CollationRootV1,
    CollationSpecialPrimariesV1, CollationTailoringV1);
unchanged!(icu_normalizer::provider::Baked: NormalizerNfdDataV1, NormalizerNfdTablesV1);
