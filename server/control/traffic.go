package control

import "time"

// A TrafficResponse is the response to a node's report of its traffic.
type TrafficResponse struct {
	// Erase are the clients whose statistics the node has to erase.
	Erase []TrafficErasure `json:"erase"`
}

// A TrafficErasure is a client whose statistics were erased at a time.
type TrafficErasure struct {
	Time time.Time `json:"time"`
	// Client are the attributes of the client as the statistics store them: values that may be secret are hashed.
	Client map[string]string `json:"client"`
}
