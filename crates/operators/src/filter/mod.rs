//! Query filters: parsed once into predicates, evaluated on raw documents.
