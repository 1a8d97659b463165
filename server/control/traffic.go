package control

import "time"

// A TrafficResponse is the response to a node's report of its traffic.
type TrafficResponse struct {
	// Erase are the clients whose statistics the node has to erase.
	Erase []TrafficErasure `json:"erase"`
	// Cursor must be in the node's next report. It confirms that the node has applied the erasures. It is empty if the
	// report had none.
	Cursor string `json:"cursor,omitempty"`
}

// A TrafficErasure is a client whose statistics were erased at a time.
type TrafficErasure struct {
	Time time.Time `json:"time"`
	// Client are the attributes of the client as the statistics store them: values that may be secret are hashed. If the
	// rules service has been restarted since the erasure, or another process has made it, all values are hashed.
	Client map[string]string `json:"client"`
}
