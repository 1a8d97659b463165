-- The twin of leakybucket.go. It decides like token-bucket; the caller computes the delay from the state.
local leakybucket = bucket
