package downstream

import "github.com/headgate/headgate/server/gateway/internal/responsewriter"

// A ResponseWriter is the http.ResponseWriter that a Server passes to its Handler. It accepts header lines in wire
// format.
type ResponseWriter = responsewriter.ResponseWriter
