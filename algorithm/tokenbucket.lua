-- The twin of tokenbucket.go.
local tokenbucket = bucket
