package conns

// Max returns the maximum number of connections: Options.Max, or less if there are not enough descriptors.
func (c *Conns) Max() int { return c.options.Max }
