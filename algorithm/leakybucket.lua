-- The twin of leakybucket.go. It admits what a token-bucket would; the caller works out the delay from the state.
local leakybucket = bucket
