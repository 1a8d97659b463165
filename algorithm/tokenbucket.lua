-- The twin of tokenbucket.go. What would be in the bucket beyond its capacity must have drained.
local tokenbucket = bucketStep(function(ahead, drained)
	return ahead - drained <= 0
end)
