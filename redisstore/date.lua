-- What time it is, in seconds since 1970 and µs.
return redis.call('TIME')
