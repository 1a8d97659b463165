package gateway
import ("testing";"time";"fmt")
func TestDbg(t *testing.T){
	up := newRecorder(t)
	c := before(up.URL)
	c.BodyTimeout = 200 * time.Millisecond
	c.Observe = func(o *Observation){ fmt.Printf("%+v\n", *o) }
	g := start(t, c)
	for range 20 {
		conn, r := dial(t, g)
		send(t, conn, lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "186a0\r\nx")
		a, err := tryReceive(r, "POST")
		if err != nil { fmt.Println("ERR", a, err) }
	}
}
