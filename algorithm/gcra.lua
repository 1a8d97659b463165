-- The twin of gcra.go. The time in which what is ahead of the capacity drains must have passed since the anchor: in
-- whole units, no more may be ahead than have drained since, which is what a token-bucket asks.
local gcra = bucket
