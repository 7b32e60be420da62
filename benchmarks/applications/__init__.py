"""The same work as whole applications, each written as its framework's own documentation would."""
