"""The statements of the scheduler's steps, each beside the code that sends it."""
