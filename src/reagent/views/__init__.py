"""Pictures of an Explanation: terminal, HTML page, PNG."""
