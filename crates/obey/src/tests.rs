//! Tests of whole commands.
