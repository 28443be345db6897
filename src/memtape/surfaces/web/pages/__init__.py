"""The pages, one module for each subject. A module registers its own pages; `register.all_pages` imports all of them."""
