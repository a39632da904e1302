//! All records in memory, and the only way to change them: through the store.
