package httpapi

import (
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
)

// A request is one requested decision.
type request struct {
	rule, user, ip, key string
	cost                int64
	present             fieldSet
	from, to            int32 // its attributes are apiCall.attributes[from:to]
}

// An attribute is a client attribute that a caller sends.
type attribute struct{ name, value string }

// fieldSet is the set of fields that a request has.
type fieldSet uint8

const (
	hasRule fieldSet = 1 << iota
	hasClient
	hasAttributes
	hasCost
	hasUser
	hasIP
	hasKey
)

// add adds a field and reports whether it is new.
func (f *fieldSet) add(field fieldSet) bool {
	added := *f&field == 0
	*f |= field
	return added
}

const (
	requestShape = `an object such as {"ruleId":"search","client":{"userId":"alice"},"cost":1}`
	clientShape  = `an object such as {"userId":"alice","clientIP":"192.0.2.1","apiKey":"k"}`
	attrShape    = `an object such as {"path":"/search","header.x-plan":"gold"}`
)

// readRequest reads one request.
func (c *apiCall) readRequest(r *jsonReader, q *request) error {
	if err := r.takeObjectStart(requestShape); err != nil {
		return err
	}
	q.from = int32(len(c.attributes))
	for first := true; ; first = false {
		name, pos, more, err := r.readName(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		var added bool
		switch name {
		case "ruleId":
			added = q.present.add(hasRule)
			q.rule, err = optional(r, "the id of a rule in quotes")
		case "client":
			added = q.present.add(hasClient)
			err = q.readClient(r)
		case "attributes":
			added = q.present.add(hasAttributes)
			err = c.readAttributes(r, q)
		case "cost":
			added = q.present.add(hasCost)
			if r.takeNull() {
				q.present &^= hasCost
				break
			}
			q.cost, err = r.readInteger(headgate.MaxCount)
		default:
			return &jsonError{pos, "unknown field " + strconv.Quote(name), "ruleId, client, attributes or cost"}
		}
		if err != nil {
			return err
		}
		if !added {
			return repeated(name, pos)
		}
	}
	q.to = int32(len(c.attributes))
	return nil
}

// optional reads a string or null. For null, it returns "".
func optional(r *jsonReader, want string) (string, error) {
	if r.takeNull() {
		return "", nil
	}
	return r.readString(want)
}

func repeated(name string, pos int) error {
	return &jsonError{pos, "field " + strconv.Quote(name) + " is given twice", "it once"}
}

func (q *request) readClient(r *jsonReader) error {
	if r.takeNull() {
		return nil
	}
	if err := r.takeObjectStart(clientShape); err != nil {
		return err
	}
	for first := true; ; first = false {
		name, pos, more, err := r.readName(first)
		if err != nil || !more {
			return err
		}
		var field fieldSet
		var target *string
		switch name {
		case "userId":
			field, target = hasUser, &q.user
		case "clientIP":
			field, target = hasIP, &q.ip
		case "apiKey":
			field, target = hasKey, &q.key
		default:
			return &jsonError{pos, "unknown field " + strconv.Quote(name), "userId, clientIP or apiKey"}
		}
		if !q.present.add(field) {
			return repeated(name, pos)
		}
		if *target, err = optional(r, "a string"); err != nil {
			return err
		}
	}
}

func (c *apiCall) readAttributes(r *jsonReader, q *request) error {
	if r.takeNull() {
		return nil
	}
	if err := r.takeObjectStart(attrShape); err != nil {
		return err
	}
	for first := true; ; first = false {
		name, pos, more, err := r.readName(first)
		if err != nil || !more {
			return err
		}
		earlier := c.attributes[q.from:]
		if len(earlier) == identity.MaxAttributes {
			return &jsonError{pos, "too many attributes", "at most " + strconv.Itoa(identity.MaxAttributes)}
		}
		for i := range earlier {
			if earlier[i].name == name {
				return repeated(name, pos)
			}
		}
		value, err := optional(r, "a string")
		if err != nil {
			return err
		}
		c.attributes = append(c.attributes, attribute{name, value})
	}
}

// readOne reads the body of a single decision.
func (c *apiCall) readOne() error {
	r := jsonReader{text: c.text}
	c.requests = append(c.requests[:0], request{})
	if err := c.readRequest(&r, &c.requests[0]); err != nil {
		return err
	}
	return r.checkEnd()
}

// readBatch reads the body of a batch.
func (c *apiCall) readBatch(maxRequests int) error {
	r := jsonReader{text: c.text}
	if !r.take('[') {
		return r.unexpected("an array, each element " + requestShape)
	}
	c.requests = c.requests[:0]
	for !r.take(']') {
		if len(c.requests) > 0 && !r.take(',') {
			return r.unexpected(`"," or "]"`)
		}
		if len(c.requests) == maxRequests {
			return &jsonError{r.pos, "too many decisions in one batch", "at most " + strconv.Itoa(maxRequests)}
		}
		c.requests = append(c.requests, request{})
		if err := c.readRequest(&r, &c.requests[len(c.requests)-1]); err != nil {
			return err
		}
	}
	return r.checkEnd()
}

// readLease reads the body of a release or a renewal.
func (c *apiCall) readLease() (lease string, err error) {
	const shape = `an object such as {"leaseId":"..."}`
	r := jsonReader{text: c.text}
	if err := r.takeObjectStart(shape); err != nil {
		return "", err
	}
	found := false
	for first := true; ; first = false {
		name, pos, more, err := r.readName(first)
		switch {
		case err != nil:
			return "", err
		case !more:
			if err := r.checkEnd(); err != nil {
				return "", err
			}
			if !found {
				return "", &jsonError{r.pos, "no leaseId", shape}
			}
			return lease, nil
		case name != "leaseId":
			return "", &jsonError{pos, "unknown field " + strconv.Quote(name), "leaseId"}
		case found:
			return "", repeated(name, pos)
		}
		found = true
		if lease, err = r.readString("the leaseId of a decision in quotes"); err != nil {
			return "", err
		}
	}
}
