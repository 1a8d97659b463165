-- The twin of gcra.go. The time in which what is ahead of the capacity drains must have passed since the anchor: in
-- whole units, no more may be ahead than have drained since.
local gcra = bucketStep(function(ahead, drained)
	return ahead <= 0 or ahead <= drained
end)
