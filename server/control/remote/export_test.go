package remote

import "time"

// SetSilence sets how long a stream may be silent.
func (c *Client) SetSilence(d time.Duration) { c.streamSilence = d }
