package memstore

// Slower is slower, for the tests outside of the package.
const Slower = slower
