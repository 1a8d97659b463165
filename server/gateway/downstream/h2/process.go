package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

func uint32At(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// process processes a frame. An error ends the connection.
func (c *Conn) process(f *frame) error {
	r := &c.reader
	if !r.gotSettings {
		if f.kind != http2.FrameSettings || f.has(http2.FlagSettingsAck) {
			return &connError{http2.ErrCodeProtocol, "the first frame is not SETTINGS"}
		}
		r.gotSettings = true
	}
	if r.block.open && (f.kind != http2.FrameContinuation || f.stream != r.block.stream) {
		return &connError{http2.ErrCodeProtocol, "a header block is interrupted"}
	}
	onStream := f.stream != 0
	switch f.kind {
	case http2.FrameData, http2.FrameHeaders, http2.FramePriority, http2.FrameRSTStream, http2.FrameContinuation:
		if !onStream {
			return &connError{http2.ErrCodeProtocol, "a frame of a stream is on the connection"}
		}
	case http2.FrameSettings, http2.FramePing, http2.FrameGoAway:
		if onStream {
			return &connError{http2.ErrCodeProtocol, "a frame of the connection is on a stream"}
		}
	}
	return c.dispatch(f)
}

func (c *Conn) dispatch(f *frame) error {
	switch f.kind {
	case http2.FrameData:
		return c.processData(f)
	case http2.FrameHeaders:
		return c.processHeaders(f)
	case http2.FrameContinuation:
		return c.processContinuation(f)
	case http2.FrameWindowUpdate:
		return c.processWindowUpdate(f)
	case http2.FrameSettings:
		return c.processSettings(f)
	case http2.FramePing:
		return c.processPing(f)
	case http2.FrameRSTStream:
		return c.processReset(f)
	case http2.FramePriority:
		return c.processPriority(f)
	case http2.FrameGoAway:
		return c.processGoAway(f)
	case http2.FramePushPromise:
		return &connError{http2.ErrCodeProtocol, "a client must not send PUSH_PROMISE"}
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.spend(1)
	}
}

func (c *Conn) processPing(f *frame) error {
	if len(f.payload) != 8 {
		return &connError{http2.ErrCodeFrameSize, "PING must have 8 bytes"}
	}
	data := [8]byte(f.payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.has(http2.FlagPingAck) {
		if data == drainData && c.drain.begun {
			c.finishDrain()
			return nil
		}
		return c.spendIf(data != pingData, 1)
	}
	c.queueControl(appendPing(c.frames(), http2.FlagPingAck, data))
	return c.spend(1)
}

func (c *Conn) processReset(f *frame) error {
	if len(f.payload) != 4 {
		return &connError{http2.ErrCodeFrameSize, "RST_STREAM must have 4 bytes"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdle(f.stream) {
		return &connError{http2.ErrCodeProtocol, "RST_STREAM for a stream that does not exist"}
	}
	if st := c.streams[f.stream]; st != nil {
		delete(c.streams, f.stream)
		st.cancel(errReset)
	}
	return c.spend(1)
}

func (c *Conn) processPriority(f *frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(f.payload) != 5:
		c.reset(f.stream, http2.ErrCodeFrameSize)
	case uint32At(f.payload)&maxStreamID == f.stream:
		c.reset(f.stream, http2.ErrCodeProtocol)
	}
	return c.spend(1)
}

// processGoAway drains the connection, because a client opens no more streams after GOAWAY.
func (c *Conn) processGoAway(f *frame) error {
	if len(f.payload) < 8 {
		return &connError{http2.ErrCodeFrameSize, "GOAWAY is too short"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drain.begun = true
	c.finishDrain()
	return c.spend(1)
}

// maxSettings is the maximum number of settings in a frame.
const maxSettings = 100

func (c *Conn) processSettings(f *frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.has(http2.FlagSettingsAck) {
		switch {
		case len(f.payload) > 0:
			return &connError{http2.ErrCodeFrameSize, "an acknowledgement has settings"}
		case c.reader.unacked == 0:
			return &connError{http2.ErrCodeProtocol, "an acknowledgement without settings"}
		}
		c.reader.unacked--
		return nil
	}
	switch {
	case len(f.payload)%settingSize != 0:
		return &connError{http2.ErrCodeFrameSize, "the size of SETTINGS is not a multiple of 6"}
	case len(f.payload)/settingSize > maxSettings:
		return &connError{http2.ErrCodeEnhanceYourCalm, "too many settings"}
	}
	for b := f.payload; len(b) > 0; b = b[settingSize:] {
		if err := c.applySetting(http2.SettingID(binary.BigEndian.Uint16(b)), uint32At(b[2:])); err != nil {
			return err
		}
	}
	c.queueControl(appendSettingsAck(c.frames()))
	return c.spend(settingsCost)
}

// applySetting applies a setting of the client. c.mu is held.
func (c *Conn) applySetting(id http2.SettingID, value uint32) error {
	switch id {
	case http2.SettingHeaderTableSize:
		c.peer.resetSize = true
	case http2.SettingEnablePush:
		if value > 1 {
			return &connError{http2.ErrCodeProtocol, "ENABLE_PUSH is neither 0 nor 1"}
		}
	case http2.SettingMaxFrameSize:
		if value < 1<<14 || value > 1<<24-1 {
			return &connError{http2.ErrCodeProtocol, "MAX_FRAME_SIZE is out of range"}
		}
	case http2.SettingInitialWindowSize:
		if value > maxWindow {
			return &connError{http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE is too large"}
		}
		change := int64(value) - c.peer.window
		c.peer.window = int64(value)
		for _, st := range c.streams {
			if !widen(&st.window, change) {
				return &connError{http2.ErrCodeFlowControl, "the window of a stream is too large"}
			}
			st.wake.Broadcast()
		}
	}
	return nil
}
