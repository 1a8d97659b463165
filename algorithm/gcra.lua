-- The twin of gcra.go. Counted in whole units, its condition on times is the one of token-bucket on levels.
local gcra = bucket
