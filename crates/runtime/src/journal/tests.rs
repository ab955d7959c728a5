//! Any interleaving of appends, readers and slowness yields gapless, ordered, complete streams.
