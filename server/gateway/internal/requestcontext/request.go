package requestcontext

import "net/http"

// A Request is an http.Request with its context and header, whose memory is reused for the next request.
type Request struct {
	HTTP     *http.Request
	Context  *Context
	template http.Request // copied to HTTP by Prepare: has the protocol, context and header
}

// NewRequest returns a Request of a protocol such as HTTP/1.1. Call Prepare before each use. fields is the expected
// number of header fields.
func NewRequest(proto string, major, minor, fields int) Request {
	r := Request{template: http.Request{
		Proto: proto, ProtoMajor: major, ProtoMinor: minor, Header: make(http.Header, fields), Body: http.NoBody,
	}}
	r.renew()
	return r
}

// Prepare prepares r for the next request, which has an empty header and no body.
func (r *Request) Prepare(o Owner) {
	if !r.Context.Reuse(o) {
		r.renew()
		r.Context.Reuse(o)
	}
	clear(r.template.Header)
	// Assigning all fields removes what handlers have added to the last request, such as a parsed form.
	*r.HTTP = r.template
}

// renew creates an http.Request with a context that no goroutine has seen yet.
func (r *Request) renew() {
	r.Context = new(Context)
	r.template = *r.template.WithContext(r.Context)
	r.HTTP = new(http.Request)
}
