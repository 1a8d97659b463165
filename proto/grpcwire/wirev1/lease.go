package wirev1

// A Lease is headgate.v1.ReleaseRequest or headgate.v1.RenewRequest.
type Lease struct {
	Lease string

	own []byte
}

// UnmarshalWire reads the message.
func (m *Lease) UnmarshalWire(b []byte) error {
	m.own = append(m.own[:0], b...)
	m.Lease = ""
	r := reader{b: m.own}
	for tag := r.next(); tag != 0; tag = r.next() {
		if tag == 1<<3|text {
			m.Lease = r.str()
		} else {
			r.skip(tag)
		}
	}
	return r.err
}

// MarshalWire appends the message.
func (m *Lease) MarshalWire(dst []byte) ([]byte, error) { return appendText(dst, 1, m.Lease), nil }

// A Renewal is headgate.v1.RenewResponse.
type Renewal struct {
	Held  bool
	TTLMs int64
}

// UnmarshalWire reads the message.
func (m *Renewal) UnmarshalWire(b []byte) error {
	*m = Renewal{}
	r := reader{b: b}
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1 << 3:
			m.Held = r.varint() != 0
		case 2 << 3:
			m.TTLMs = int64(r.varint())
		default:
			r.skip(tag)
		}
	}
	return r.err
}

// MarshalWire appends the message.
func (m *Renewal) MarshalWire(dst []byte) ([]byte, error) {
	return appendVarint(appendBool(dst, 1, m.Held), 2, uint64(m.TTLMs)), nil
}
