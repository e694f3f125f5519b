//! Every operator as a pure function over raw BSON: expressions, filters, updates, projections, accumulators.
//! Must not know: stores, commands, clocks (time and randomness come in through the context).
