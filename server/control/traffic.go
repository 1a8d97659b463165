package control

import "time"

// A TrafficResponse is the response to a node's report of its traffic.
type TrafficResponse struct {
	// Erase are the clients that the node has to forget.
	Erase []TrafficErasure `json:"erase"`
}

// A TrafficErasure is a client whose statistics were erased at a time.
type TrafficErasure struct {
	Time time.Time `json:"time"`
	// Client are attributes as the statistics keep them: values that may be secret are hidden.
	Client map[string]string `json:"client"`
}
