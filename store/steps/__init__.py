"""The statements of the scheduler's steps, next to the code that sends them."""
