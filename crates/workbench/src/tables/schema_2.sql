-- Where each word of the memories is: a search reads it instead of having every memory weighed by the full-text index.
CREATE VIRTUAL TABLE bench_memory_occurrences USING fts5vocab('bench_memory_words', 'instance');
