package node

import "os"

// ballastBytes is how much the ballast seems to take.
const ballastBytes = 32 << 20

// ballast returns memory that is never touched, and so takes none of the machine's. The collector lets the heap double
// before it runs, and without counters to speak of the heap is some megabytes: it would run many times a second for the
// sake of next to nothing. With ballast it waits for that much garbage more. Who sets GOGC has other plans.
func ballast() []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, ballastBytes)
}
