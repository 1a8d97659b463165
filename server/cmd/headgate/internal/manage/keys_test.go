package manage

import "testing"

func TestMessagesHaveNoSecrets(t *testing.T) {
	got := shownAttributes([]string{"user=a user with a long name", "api_key=sk-live-abcdefghijklmnop", "header.x-token=short"})
	if want := "user=a user with a long name api_key=sk-l… header.x-token=…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
